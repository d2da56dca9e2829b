"""Models with small windows, through the whole product."""

import itertools
from functools import partial
from pathlib import Path

import pytest

from tests.flow.product import product
from tests.flow.test_folds import analyse, lead_to
from tests.simulators.openai import ChatSim
from worker.conversation.context import Status
from worker.conversation.messages import find_results
from worker.lab.script import Answer, Asked, Call, Say, Script

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOG = "/tmp/data/500003.log"
FINDING = """\
## Verdict
caused by this change

## Failed
unit-tests (job 500003): test_a_boat_sails_when_the_water_allows_it

## Cause
`merge` in ferrytimes/windows.py no longer joins windows that only touch, so the 23:50 boat is lost.

## Evidence
- job 500003 line 1658: E       AssertionError: assert [] == ['23:50']

## What to do
Compare with `touches` in `merge`.
"""
STEPS: list[Answer] = [
    Call(
        [
            (
                "fetch_to_sandbox",
                {"source": "gitlab_get_job_log", "arguments": {"job_id": 500003}, "path": LOG},
            )
        ]
    ),
    Call([("sandbox_exec", {"command": f"log errors {LOG}"})]),
    Call([("gitlab_get_mr_diff", {})]),
    Call([("gitlab_get_file", {"path": "ferrytimes/windows.py"})]),
    Call([("sandbox_exec", {"command": f"log slice {LOG} 1640-1660"})]),
    Say(FINDING),
]


def follow(steps: list[Answer]) -> Script:
    """A model that takes its steps whatever it still remembers."""
    number = itertools.count()
    return lambda asked: steps[min(next(number), len(steps) - 1)]


def test_a_window_of_8000_tokens_is_enough_for_a_proven_note(tmp_path: Path) -> None:
    simulator = partial(ChatSim, window=8_000)
    with product(tmp_path, follow(STEPS), "memory://", simulator) as told:
        lead_to(told, "chat", 8_000, "")
        ended = analyse(told)
        (note,) = told.notes()

    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.reason) == (Status.DONE, "")
    assert told.model.unexpected_requests == []
    assert not [each for each in find_results(ended.messages) if each.is_error]
    assert "Caused by this change" in note.body
    assert "assert [] == ['23:50']" in note.body
    assert "line 1658" in note.body


def look_often(calls: int) -> Script:
    """Fetches the log, reads on in it so often, and quotes what it saw at the beginning."""
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        step = next(number)
        if step == 0:
            return STEPS[0]
        if step < calls and asked.tools_allowed:
            at = 8 * step
            return Call([("sandbox_exec", {"command": f"log slice {LOG} {at + 1}-{at + 12}"})])
        return Say(FINDING)

    return answer


@pytest.mark.slow
def test_a_window_of_32000_tokens_is_enough_for_200_calls(tmp_path: Path) -> None:
    simulator = partial(ChatSim, window=32_000)
    with product(tmp_path, look_often(200), "memory://", simulator) as told:
        lead_to(told, "chat", 32_000, "")
        workflow = (Path(__file__).parents[2] / "workflows/analyze-failures.md").read_text()
        folder = told.folder / "workflows"
        folder.mkdir()
        (folder / "long.md").write_text(
            workflow.replace("max_iterations: 50", "max_iterations: 400")
        )
        with (told.folder / "sandpiper.yaml").open("a") as file:
            file.write(f"workflows: {folder}\nlimits: {{max_iterations: 400}}\n")
        ended = analyse(told)
        (note,) = told.notes()

    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.reason) == (Status.DONE, "")
    assert told.model.unexpected_requests == []
    assert len(list(find_results(ended.messages))) == 200
    assert ended.folds
    assert "assert [] == ['23:50']" in note.body
