"""`sandpiper doctor` as an operator runs it, over the running product."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.product import DOCKER, KEY, SECRET, Product, product
from tests.simulators.gitlab import Access
from tests.terminals import run_on_terminal
from worker.doctor.table import CHECKS
from worker.lab.script import Answer, Asked, Call

pytestmark = pytest.mark.usefixtures("sandbox_image")


def script(asked: Asked) -> Answer:
    return Call([("report_number", {"number": 17})])


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, script, "memory://", driver=DOCKER) as made:
        made.gitlab.add_member(made.scene.mr.project, made.scene.bot, Access.MAINTAINER)
        yield made


def rows(done_stdout: str) -> dict[str, str]:
    return {row["name"]: row["status"] for row in json.loads(done_stdout)["lines"]}


def test_fix_makes_a_new_installation_right_and_the_doctor_says_so(told: Product) -> None:
    with told.serve():
        first = told.run("doctor", "--url", told.url, "--fix")
        assert first.returncode == 0, first.stdout
        assert f"made in northsound/ferrytimes, to {told.url}" in first.stdout
        (hook,) = told.gitlab.webhooks.by_project[told.scene.mr.project.id]
        assert (hook.token, hook.url) == (SECRET, f"{told.url}/webhooks/gitlab")
        again = told.run("doctor", "--url", told.url, "--fix", "--json")
        assert again.returncode == 0, again.stdout
        assert set(rows(again.stdout).values()) == {"ok"}
        assert len(hook.deliveries) == 1
        told.write_settings(f"pages: {{url: {told.url}}}")
        assert told.run("doctor", "--fix", "--only", "webhook").returncode == 0
        told.env["GITLAB_WEBHOOK_SECRET"] = "not-that-of-the-running-receiver"
        other = told.run("doctor", "--url", told.url, "--only", "receiver")
        assert other.returncode == 1
        assert "✗ receiver        signature: the receiver runs with another secret" in other.stdout
    shown = first.stdout
    assert "✗" not in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    # Piped, a finding is one line that begins with the name that --only takes.
    *lines, summary = shown.splitlines()
    assert summary.endswith(" well")
    names = {line[4:20].rstrip() for line in lines if line.startswith("  ")}
    assert names <= {check.name for check in CHECKS}
    assert len(names) >= len(CHECKS) - 3  # what is not set up says nothing
    assert {line for line in lines if line[0] != " "} == {check.group for check in CHECKS}
    for secret in (KEY, SECRET, told.scene.read_token, told.scene.write_token):
        assert secret not in shown + again.stdout + first.stderr + again.stderr
    assert told.gitlab.unexpected_requests == []


def answers(told: Product) -> bool:
    done = told.run("doctor", "--only", "broker", "--only", "workers")
    assert "✓ broker          redis answers" in done.stdout
    return done.returncode == 0 and "✓ workers         1: celery@" in done.stdout


def test_a_worker_behind_redis_answers(told: Product, redis_url: str) -> None:
    told.env["SANDPIPER_BROKER"] = redis_url
    with told.process("worker") as worker:
        worker.until(lambda: answers(told), "the worker does not answer")


def test_what_fails_is_an_exit_status(told: Product) -> None:
    told.env |= {"GITLAB_READ_TOKEN": "glpat-this-one-was-revoked-long-ago"}
    done = told.run("doctor", "--only", "read-token", "--only", "projects", "--no-model")
    assert done.returncode == 1
    assert "✗ read-token" in done.stdout
    assert "– projects" in done.stdout
    assert "glpat-" not in done.stdout + done.stderr


def test_on_a_terminal_its_lines_have_eighty_columns(told: Product) -> None:
    told.env["GITLAB_READ_TOKEN"] = "glpat-this-one-was-revoked-long-ago"
    only = ("--only", "settings", "--only", "read-token", "--only", "projects")
    shown = run_on_terminal(("doctor", *only), told.env | {"TERM": "dumb"}, told.folder)
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert "  ✗ read-token      " in shown
    assert "\n" + " " * 20 in shown


def test_a_broken_file_is_a_line_and_nothing_else_is_checked(told: Product) -> None:
    told.write_settings("gitlab: {projcts: [a]}\nlimits: 3\n")
    done = told.run("doctor")
    assert done.returncode == 1
    assert "sandpiper.yaml:1: gitlab.projcts: unknown key" in " ".join(done.stdout.split())
    assert "– all else" in done.stdout
    told.write_settings("gitlab: [")
    done = told.run("doctor", "--json")
    assert done.returncode == 1
    assert rows(done.stdout) == {"settings": "failed", "all else": "unchecked"}


@pytest.mark.parametrize(
    "arguments", [["--fix"], ["--url", "sandpiper.example"], ["--only", "nothing"]]
)
def test_a_wrong_call_is_a_usage_error(told: Product, arguments: list[str]) -> None:
    done = told.run("doctor", *arguments)
    assert done.returncode == 2
    assert "Error: " in done.stderr
