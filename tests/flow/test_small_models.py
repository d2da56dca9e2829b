"""Models that need short lists of tools, or a hand: through the whole product."""

import itertools
import json
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.flow.test_folds import FAR_APART, FINDING, WIRES, lead_to
from tests.simulators.openai import ChatSim
from worker.conversation import context_json
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.messages import Assistant, Message, ToolCall, find_results
from worker.lab.script import Answer, Asked, Call, Say, Script

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOOK = Call([("sandbox_exec", {"command": "ls /tmp/data"})])


def say_in_order(*answers: Answer) -> Script:
    left = iter(answers)
    return lambda asked: next(left)


def analyse(made: Product) -> Context:
    done = made.run("analyze", "northsound/ferrytimes!1")
    assert done.returncode == 0, done.stderr
    return context_json.load_context(made.objects("context.json")[-1].read_bytes())


def add_settings(made: Product, text: str) -> None:
    page = made.folder / "sandpiper.yaml"
    page.write_text((page.read_text() if page.exists() else "") + text)


@pytest.mark.parametrize("wire", FAR_APART)
def test_a_tool_that_was_not_announced_is_found_and_used(wire: str, tmp_path: Path) -> None:
    fetch = {"source": "gitlab_get_test_report", "arguments": {}, "path": "/tmp/data/report.json"}
    script = say_in_order(
        Call([("find_tool", {"query": "which tests failed, by the test report"})]),
        Call([("fetch_to_sandbox", fetch)]),
        Say(FINDING),
    )
    with product(tmp_path, script, "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        add_settings(made, "loop: {tools: compact}\n")
        ended = analyse(made)
        assert made.model.unexpected_requests == []
    names = [tool.name for tool in ended.tools]
    assert "find_tool" in names
    assert "gitlab_get_test_report" not in names
    assert len(names) <= 8
    found, _ = find_results(ended.messages)
    assert json.loads(found.content)["tools"][0]["name"] == "gitlab_get_test_report"
    assert ended.outcome == Outcome(Status.DONE, FINDING)


def test_a_log_that_was_saved_unasked_is_not_shown_again(tmp_path: Path) -> None:
    log = {
        "source": "gitlab_get_job_log",
        "arguments": {"job_id": 500003},
        "path": "/tmp/data/mine.log",
    }
    script = say_in_order(Call([("fetch_to_sandbox", log)]), LOOK, Say(FINDING))
    with product(tmp_path, script, "memory://") as made:
        ended = analyse(made)
    fetched, listed = map(lambda each: json.loads(each.content), find_results(ended.messages))
    assert "was saved before: /tmp/data/job-500003.log" in fetched["preview"]
    assert "mine.log" in listed["stdout"]


def test_a_server_that_forces_calls_ends_the_turn_by_an_answer(tmp_path: Path) -> None:
    script = say_in_order(LOOK, Call([("answer", {"text": FINDING})]))
    with product(tmp_path, script, "memory://", ChatSim) as made:
        lead_to(made, "chat", 100_000, "")
        page = made.folder / "sandpiper.yaml"
        page.write_text(page.read_text().replace("window:", "forced_decision: true, window:"))
        ended = analyse(made)
        assert made.model.unexpected_requests == []
        assert {request["tool_choice"] for request in made.model.requests} == {"required"}
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    assert "answer" not in {tool.name for tool in ended.tools}
    assert all(call.name != "answer" for each in ended.messages for call in list_calls(each))


def list_calls(message: Message) -> tuple[ToolCall, ...]:
    return message.calls if isinstance(message, Assistant) else ()


@pytest.mark.parametrize("wire", FAR_APART)
def test_a_small_model_is_led_through_the_plan(wire: str, tmp_path: Path) -> None:
    seen: list[str] = []
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        seen.append(json.dumps(asked.body))
        return LOOK if next(number) == 0 else Say(FINDING)

    with product(tmp_path, answer, "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 12_000, "")
        ended = analyse(made)
        assert made.model.unexpected_requests == []
    first, *_ = find_results(ended.messages)
    assert first.call_id == "planned-1"
    assert "AssertionError" in first.content
    assert "Next is step 2 of" in seen[0]
    assert "Next is step 3 of" in seen[1]
    assert "Next is step 2 of" not in seen[1]
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    assert ended.turn_usage.iterations == 2


def test_a_large_model_is_not_led(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(asked: Asked) -> Answer:
        seen.append(json.dumps(asked.body))
        return Say(FINDING) if asked.answers else LOOK

    with product(tmp_path, answer, "memory://") as made:
        ended = analyse(made)
    assert not any("Next is step" in each for each in seen)
    assert len(list(find_results(ended.messages))) == 1
