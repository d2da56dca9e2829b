"""The doctor and the webhooks: what is looked at, what is written, and that it is written once."""

import pytest

from tests.simulators.gitlab import Access
from tests.unit.doctor.bed import EVENTS, URL, Bed, Break
from tests.unit.doctor.breaks import hook, last_delivery, without
from worker.doctor.base import CheckStatus
from worker.settings.gitlab import derive_secret

GITLAB = ("gitlab", "clock", "read-token", "write-token", "projects", "role", "webhook")


def test_the_webhook_of_a_group_will_do(patient: Bed) -> None:
    patient.gitlab.webhooks.by_project.clear()
    hook = patient.gitlab.webhooks.add_to_group("team", f"{URL}/webhooks/gitlab", *EVENTS)
    (line,) = patient.lines("webhook")
    assert (line.status, line.finding) == (CheckStatus.GOOD, "right for 1 of 1 projects")
    hook.events.discard("note_events")
    (line,) = patient.lines("webhook")
    assert (line.status, "leaves out comments" in line.finding) == (CheckStatus.FAILED, True)


def test_another_webhook_of_a_subgroup_does_not_hide_that_of_the_group_above(patient: Bed) -> None:
    project = patient.scene.project
    project.path = f"team/backend/{project.path.rpartition('/')[2]}"
    patient.gitlab.webhooks.by_project.clear()
    patient.gitlab.webhooks.add_to_group("team", f"{URL}/webhooks/gitlab", *EVENTS)
    patient.gitlab.webhooks.add_to_group("team/backend", "https://chat.example.com/", *EVENTS)
    patient.fix = True
    (line,) = patient.lines("webhook")
    assert (line.status, line.finding) == (CheckStatus.GOOD, "right for 1 of 1 projects")
    assert writes(patient) == []


def writes(patient: Bed) -> list[str]:
    return [
        f"{seen.method} {seen.path.partition(f'/{patient.scene.project.id}/')[2]}"
        for seen in patient.gitlab.requests
        if seen.method != "GET"
    ]


def test_looking_writes_nothing(patient: Bed) -> None:
    patient.lines(*GITLAB)
    assert writes(patient) == []


def test_fix_makes_the_webhook_and_then_leaves_it_alone(patient: Bed) -> None:
    patient.gitlab.webhooks.by_project.clear()
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    patient.fix = True
    for _ in range(2):
        assert {line.status for line in patient.lines("webhook")} == {CheckStatus.GOOD}
        assert writes(patient) == ["POST hooks", "POST hooks/2/test/push_events"]
    ((made,),) = patient.gitlab.webhooks.by_project.values()
    assert made.url == f"{URL}/webhooks/gitlab"
    assert made.events == {
        *("pipeline_events", "note_events", "confidential_note_events", "emoji_events"),
    }
    assert (made.token, made.signing_token, made.ssl) == ("bed-webhook-secret-0123456789", "", True)


def test_fix_sets_a_signing_token_where_the_secret_is_one(patient: Bed) -> None:
    patient.gitlab.webhooks.by_project.clear()
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    patient.env["GITLAB_WEBHOOK_SECRET"] = "whsec_" + "c2FuZHBpcGVy" * 3
    patient.fix = True
    assert {line.status for line in patient.lines("webhook")} == {CheckStatus.GOOD}
    ((made,),) = patient.gitlab.webhooks.by_project.values()
    assert (made.token, made.signing_token) == ("", "whsec_" + "c2FuZHBpcGVy" * 3)


@pytest.mark.parametrize(
    "broken",
    [
        without("pipeline_events", "emoji_events"),
        hook(ssl=False),
        hook(token=""),
        hook(alert="disabled"),
        last_delivery("401"),
    ],
    ids=["events", "verification", "secret", "disabled", "another secret"],
)
def test_fix_puts_a_webhook_right_once(patient: Bed, broken: Break) -> None:
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    broken(patient)
    patient.fix = True
    assert {line.status for line in patient.lines("webhook")} <= {
        CheckStatus.GOOD,
        CheckStatus.FAILED,
    }
    before = len(writes(patient))
    assert writes(patient)[0] == "PUT hooks/1"
    assert {line.status for line in patient.lines("webhook")} == {CheckStatus.GOOD}
    assert len(writes(patient)) == before
    assert patient.hook.token == "bed-webhook-secret-0123456789"


def test_fix_says_that_it_needs_a_maintainer_and_takes_the_token_of_one(patient: Bed) -> None:
    patient.role(Access.REPORTER)
    patient.gitlab.webhooks.by_project.clear()
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    patient.fix = True
    (line,) = patient.lines("webhook")
    assert (line.status, "GITLAB_SETUP_TOKEN" in line.advice) == (CheckStatus.FAILED, True)
    assert writes(patient) == []
    boss = patient.gitlab.add_user("boss")
    patient.gitlab.add_member(patient.scene.project, boss, Access.MAINTAINER)
    patient.env["GITLAB_SETUP_TOKEN"] = patient.gitlab.add_token("setup", boss, "api")
    assert {line.status for line in patient.lines("webhook")} == {CheckStatus.GOOD}


def test_a_test_delivery_that_is_refused_means_another_secret(patient: Bed) -> None:
    patient.hook.deliveries.clear()
    patient.gitlab.webhooks.post = lambda url, event: (401, "")
    (blamed,) = [line for line in patient.lines("webhook") if line.status is CheckStatus.FAILED]
    assert "the secrets differ" in blamed.finding
    assert "GITLAB_WEBHOOK_SECRET" in blamed.advice


def test_of_many_projects_few_are_tested_and_twenty_looked_at(patient: Bed) -> None:
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    patient.hook.deliveries.clear()
    for number in range(24):
        project = patient.gitlab.add_project(f"team/more-{number}")
        patient.gitlab.add_member(project, patient.scene.bot, Access.MAINTAINER)
        patient.gitlab.webhooks.add(project, patient.hook.url, *patient.hook.events, token="x")
    found = {line.name: line.finding for line in patient.lines("webhook")}
    assert found["webhook"] == "right for 20 of 25 projects (looked at 20)"
    asked = [seen.path for seen in patient.gitlab.requests if "/test/" in seen.path]
    assert len(asked) == len(set(asked)) == 3


# ---------------------------------------------------------------------- a secret for each project

KEY, OLD = "a-key-of-thirty-two-characters-00", "the-key-before-it-32-characters-0"


@pytest.fixture
def keyed(patient: Bed) -> Bed:
    """A patient whose webhooks are to have secrets of their own, with two projects."""
    patient.gitlab.webhooks.post = lambda url, event: (200, "")
    del patient.env["GITLAB_WEBHOOK_SECRET"]
    patient.env["GITLAB_WEBHOOK_KEY"] = KEY
    second = patient.gitlab.add_project("team/second")
    patient.gitlab.add_member(second, patient.scene.bot, Access.MAINTAINER)
    return patient


def list_hooks(patient: Bed) -> dict[int, list[tuple[str, str, str]]]:
    return {
        project: [(each.url, each.token, each.signing_token) for each in hooks]
        for project, hooks in patient.gitlab.webhooks.by_project.items()
    }


def test_fix_makes_a_secret_for_each_project_and_then_leaves_them_alone(keyed: Bed) -> None:
    keyed.gitlab.webhooks.by_project.clear()
    keyed.fix = True
    for _ in range(2):
        assert {line.status for line in keyed.lines("webhook")} == {CheckStatus.GOOD}
        assert len(writes(keyed)) == 4  # two are made and tested
    made = list_hooks(keyed)
    assert len(made) == 2
    for project, hooks in made.items():
        address = f"{URL}/webhooks/gitlab?project={project}"
        assert hooks == [(address, derive_secret(KEY, project), "")]


@pytest.mark.parametrize("shared", ["", "bed-webhook-secret-0123456789"])
def test_a_webhook_with_the_shared_secret_is_named_and_gets_its_own(
    keyed: Bed, shared: str
) -> None:
    project = keyed.scene.project
    keyed.env["GITLAB_WEBHOOK_SECRET"] = shared
    keyed.hook.token = shared or "what-it-was"
    blamed = [line for line in keyed.lines("webhook") if "projects share" in line.finding]
    assert [line.status for line in blamed] == [
        CheckStatus.WARNING if shared else CheckStatus.FAILED
    ]
    warned = [line for line in keyed.lines("settings") if "every project" in line.finding]
    assert bool(warned) == bool(shared)
    keyed.fix = True
    assert {line.status for line in keyed.lines("webhook")} == {CheckStatus.GOOD}
    (own,) = list_hooks(keyed)[project.id]
    assert own == (
        f"{URL}/webhooks/gitlab?project={project.id}",
        derive_secret(KEY, project.id),
        "",
    )


def test_the_address_of_another_project_is_named_and_put_right(keyed: Bed) -> None:
    keyed.hook.url = f"{URL}/webhooks/gitlab?project=999"
    blamed = [line for line in keyed.lines("webhook") if "another project" in line.finding]
    assert [line.status for line in blamed] == [CheckStatus.FAILED]
    keyed.fix = True
    assert {line.status for line in keyed.lines("webhook")} == {CheckStatus.GOOD}
    assert keyed.hook.url == f"{URL}/webhooks/gitlab?project={keyed.scene.project.id}"


def test_a_new_key_reaches_every_webhook_while_the_old_one_stands(keyed: Bed) -> None:
    keyed.fix = True
    keyed.env["GITLAB_WEBHOOK_KEY"] = OLD
    keyed.lines("webhook")
    before = list_hooks(keyed)
    signing = "whsec_" + "c2FuZHBpcGVy" * 4
    keyed.env["GITLAB_WEBHOOK_KEY"] = f"{signing} {OLD}"
    keyed.lines("webhook")
    for project, ((_, _, secret),) in list_hooks(keyed).items():
        assert secret == derive_secret(signing, project)
        assert before[project][0][1] == derive_secret(OLD, project)
    keyed.env["GITLAB_WEBHOOK_KEY"] = signing
    written = len(writes(keyed))
    assert {line.status for line in keyed.lines("webhook")} == {CheckStatus.GOOD}
    assert len(writes(keyed)) == written


def test_a_groups_webhook_does_only_with_the_secret_that_all_share(keyed: Bed) -> None:
    keyed.gitlab.webhooks.by_project.clear()
    keyed.gitlab.webhooks.add_to_group("team", f"{URL}/webhooks/gitlab", *EVENTS)
    assert CheckStatus.FAILED in {line.status for line in keyed.lines("webhook")}
    keyed.env["GITLAB_WEBHOOK_SECRET"] = "bed-webhook-secret-0123456789"
    assert {line.status for line in keyed.lines("webhook")} == {CheckStatus.GOOD}


def test_without_the_key_a_webhook_with_its_own_secret_is_named(patient: Bed) -> None:
    patient.hook.url = f"{URL}/webhooks/gitlab?project={patient.scene.project.id}"
    (blamed,) = [line for line in patient.lines("webhook") if line.status is CheckStatus.WARNING]
    assert "GITLAB_WEBHOOK_KEY" in blamed.advice
