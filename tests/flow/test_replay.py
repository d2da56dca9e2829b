"""A stored session is replayed on its record, through the product's own processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import DOCKER, Product, product
from tests.flow.test_folds import FAR_APART, FINDING, WIRES, lead_to
from worker.lab.script import Answer, Asked, Call, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOOK = "wc -l < /tmp/data/job-500003.log"
OTHER = "head -c 20 /tmp/data/mr.diff | wc -c"


class Model:
    """Calls what it is told to, and answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = [("sandbox_exec", {"command": LOOK})]
        self.answer = FINDING
        self.results: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        if not asked.results:
            return Call(self.calls)
        self.results = [each.content for each in asked.results]
        return Say(self.answer)


def replay(made: Product, *more: str, status: int = 0) -> Any:
    session = made.objects("context.json")[0].parent.parent.name
    done = made.run("replay", session, "--json", *more)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("wire", FAR_APART)
def test_the_same_calls_get_the_recorded_results(wire: str, tmp_path: Path) -> None:
    model = Model()
    with product(tmp_path, model, "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        assert made.run("analyze", "northsound/ferrytimes!1").returncode == 0
        recorded, notes = model.results, len(made.notes())
        result = replay(made)
        assert model.results == recorded
        assert len(made.notes()) == notes
        assert len(made.objects("context.json")) == 1
        assert made.model.unexpected_requests == []
    assert (result["recorded_calls"], result["new_commands"]) == (1, 0)
    assert (
        result["stored_side"]["verdict"]
        == result["replayed_side"]["verdict"]
        == "caused by this change"
    )
    assert result["replayed_side"]["proven_quotes"] == result["stored_side"]["proven_quotes"] == 1
    assert result["replayed_side"]["requests"] == 2


@pytest.mark.usefixtures("sandbox_image")
def test_new_commands_run_in_the_stored_files_and_other_calls_are_unavailable(
    tmp_path: Path,
) -> None:
    model = Model()
    with product(tmp_path, model, "memory://", driver=DOCKER) as made:
        assert made.run("analyze", "northsound/ferrytimes!1").returncode == 0
        model.calls = [("sandbox_exec", {"command": OTHER}), ("gitlab_list_job_runs", {"job": "x"})]
        result = replay(made)
    ran, missed = map(json.loads, model.results)
    assert ran["stdout"].strip() == "20"
    assert "no record" in missed["unavailable"]
    assert (result["new_commands"], result["unavailable_calls"]) == (1, 1)


def test_another_workflow_and_a_worse_answer_are_told(tmp_path: Path) -> None:
    model = Model()
    with product(tmp_path, model, "memory://") as made:
        assert made.run("analyze", "northsound/ferrytimes!1").returncode == 0
        model.answer = FINDING.replace("line 1658: E ", "line 2: F ")
        text = "---\nname: short\ndescription: x\n---\n# Task\nAnswer from `## Verdict` on.\n"
        (tmp_path / "short.md").write_text(text)
        result = replay(made, "--workflow", "short.md")
        assert "Answer from `## Verdict` on." in json.dumps(made.model.requests[-1]["system"])
        assert made.run("replay", "nothing").returncode == 1
        assert made.run("replay", "nothing", "--workflow", "none.md").returncode == 2
    assert result["stored_side"]["proven_quotes"] == 1
    assert (
        result["replayed_side"]["proven_quotes"],
        result["replayed_side"]["unproven_quotes"],
    ) == (0, 1)


def test_an_answer_cannot_steer_the_terminal(tmp_path: Path) -> None:
    model = Model()
    with product(tmp_path, model, "memory://") as made:
        assert made.run("analyze", "northsound/ferrytimes!1").returncode == 0
        model.answer += "\n\x1b]0;title\x07the end"
        session = made.objects("context.json")[0].parent.parent.name
        told = made.run("replay", session).stdout
    assert told.endswith("]0;titlethe end\n")
    assert "\x1b" not in told
