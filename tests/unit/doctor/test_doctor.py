"""What the doctor says of a well patient, and of one that is broken in every way."""

import pytest

from tests.simulators.anthropic.model_list import describe_model
from tests.unit.doctor import rows_around, rows_gitlab
from tests.unit.doctor.bed import Bed
from tests.unit.doctor.breaks import Row, file, set_to
from worker.doctor.base import CheckStatus
from worker.lab.script import Say

GITLAB = (
    *("gitlab", "clock", "read-token", "write-token", "projects", "role", "read-role"),
    *("notes", "webhook"),
)
ROWS = [*rows_gitlab.ROWS, *rows_around.ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_what_is_broken_is_named_with_what_to_do(patient: Bed, row: Row) -> None:
    if row.what in ("not GitLab", "something else there"):
        patient.gitlab.unexpected_requests = _Ignored()
    row.broken(patient)
    lines = patient.lines(row.check)
    blamed = [line for line in lines if line.status is row.status and line.name == row.name]
    assert blamed, lines
    assert row.found in " / ".join(line.finding for line in blamed)
    assert row.advice in " / ".join(line.advice for line in blamed)


class _Ignored(list[str]):
    def append(self, _: str) -> None:
        """These rows ask something of GitLab that it does not have."""


def test_a_well_patient_is_told_so(patient: Bed) -> None:
    names = (
        "settings",
        "workflows",
        "idle",
        "versions",
        "packages",
        *GITLAB,
        "broker",
        "store",
        "disk",
        "model",
    )
    assert {line.status for line in patient.lines(*names)} == {CheckStatus.GOOD}


def test_a_helper_need_not_call_tools(patient: Bed) -> None:
    set_to(answer=Say("Hello."))(patient)
    file(models={"helper": "anthropic/claude-haiku-4-5"})(patient)
    findings = [line.finding for line in patient.lines("model") if line.status is CheckStatus.GOOD]
    assert any("claude-haiku-4-5 (helper) answers" in each for each in findings)


def test_what_is_configured_is_said_with_its_roles_and_whether_it_is_served(patient: Bed) -> None:
    tiers = {
        "balanced": {"model": "anthropic/claude-haiku-5-5"},
        "deep": {"model": "anthropic/claude-opus-5-5", "reasoning": "xhigh"},
    }
    file(models={"tiers": tiers, "reply": "anthropic/claude-haiku-5-5"})(patient)
    patient.model.model_list.append(describe_model("claude-novel-1"))
    findings = [line.finding.partition(";")[0] for line in patient.lines("model")]

    assert findings[:3] == [
        "anthropic/claude-sonnet-5-5 (default) answers and calls tools",
        "anthropic/claude-haiku-5-5 (tier balanced, reply) answers and calls tools",
        "anthropic/claude-opus-5-5 at xhigh (tier deep) answers and calls tools",
    ]
    (served,) = [line for line in patient.lines("model") if line.name == "served"]
    assert served.finding == (
        "anthropic lists 5 models, those configured among them; "
        "the catalogue does not describe claude-novel-1"
    )


def test_without_a_list_the_bots_memberships_are_said_to_be_served(patient: Bed) -> None:
    patient.gitlab.add_project("public/thing", public=True)
    (line,) = patient.lines("projects")
    memberships = "the bot's memberships, as gitlab.projects is empty"
    assert line.finding == f"1 served, {memberships}: team/service"
