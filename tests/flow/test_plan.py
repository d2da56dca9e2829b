"""What every investigation needs is there before the model asks for it, over every wire."""

import itertools
import json
from pathlib import Path

import pytest

from tests.flow import crew
from tests.flow.product import Product, product
from tests.flow.test_folds import FAR_APART, FINDING, WIRES, lead_to
from tests.flow.test_takeover import killed, mortal, told
from tests.simulators.anthropic import AnthropicSim
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.messages import User, find_results
from worker.conversation.plan import ANNOUNCEMENT, TASK
from worker.lab.script import Answer, Asked, Call, Say, Script, Scripted

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOOK = "ls /tmp/data; grep -c . /tmp/data/job-500003.log; head -3 /tmp/data/mr.diff"


def read_then_answer(command: str = LOOK) -> Script:
    """A model that reads the announced files at once, and answers."""
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        return Call([("sandbox_exec", {"command": command})]) if not next(number) else Say(FINDING)

    return answer


def analyse(made: Product) -> Context:
    done = made.run("analyze", "northsound/ferrytimes!1")
    assert done.returncode == 0, done.stderr
    return context_json.load_context(made.objects("context.json")[-1].read_bytes())


def read_first_message(ended: Context) -> str:
    first = ended.messages[0]
    assert isinstance(first, User)
    return first.text


@pytest.mark.parametrize("wire", FAR_APART)
def test_the_first_command_finds_the_announced_files(wire: str, tmp_path: Path) -> None:
    with product(tmp_path, read_then_answer(), "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        ended = analyse(made)
        assert made.model.unexpected_requests == []
    assert ended.outcome
    assert (ended.outcome.status, ended.turn_usage.iterations) == (Status.DONE, 2)
    first = read_first_message(ended)
    assert "- /tmp/data/job-500003.log: the log of job 500003 (unit-tests)" in first
    assert "AssertionError: assert [] == ['23:50']" in first
    assert "ferrytimes/windows.py" in first.partition("The merge request's diff")[2]
    (result,) = find_results(ended.messages)
    out = json.loads(result.content)["stdout"]
    for name in ("job-500003.log", "jobs.json", "mr.diff"):
        assert name in out


def test_without_a_plan_the_first_message_is_what_it_was(tmp_path: Path) -> None:
    with product(tmp_path, read_then_answer("ls /tmp/data"), "memory://") as made:
        made.write_settings("loop: {plan: off}\n")
        ended = analyse(made)
    first = read_first_message(ended)
    assert ANNOUNCEMENT not in first
    assert "The merge request's diff" not in first
    (result,) = find_results(ended.messages)
    assert "mr.diff" not in result.content


PLAN = '[{"tool": "sandbox_exec", "do": "Read the two cases."}, {"tool": "made_up", "do": "x"}]'


@pytest.mark.parametrize(("plan", "steps"), [(PLAN, 1), ("I would look at the log.", 0)])
def test_a_helpers_plan_is_told_and_its_failure_costs_nothing(
    plan: str, steps: int, tmp_path: Path
) -> None:
    analysing = read_then_answer()

    def answer(asked: Asked) -> Answer:
        return Say(plan) if TASK[:60] in json.dumps(asked.body) else analysing(asked)

    with product(tmp_path, answer, "memory://", AnthropicSim) as made:
        made.write_settings("loop: {plan: model}\nmodels: {helper: anthropic/claude-haiku-4-5}\n")
        ended = analyse(made)
    first = read_first_message(ended)
    assert first.count("`sandbox_exec`: Read the two cases.") == steps
    assert "made_up" not in first
    assert ("`log errors FILE`" in first) == (steps == 0)
    assert ended.calls[0].task == "plan"
    assert ended.calls[0].cost_usd is not None


CHANGE = "echo the-models-own > /tmp/data/mr.diff; rm /tmp/data/jobs.json"
READ = "cat /tmp/data/mr.diff; ls /tmp/data"


@pytest.mark.usefixtures("sandbox_image")
def test_a_worker_that_takes_over_saves_them_again_but_not_over_the_models(
    tmp_path: Path, redis_url: str
) -> None:
    commands = [Call([("sandbox_exec", {"command": each})]) for each in (CHANGE, READ)]
    with told(tmp_path, redis_url, Scripted([*commands, Say(FINDING)])) as made:
        crew.fails(made)
        with mortal(made, "in a command", "worker") as one:
            killed(one)
        with crew.at_work(made) as heir:
            heir.until(lambda: made.objects("context.json"), "nobody went on")
        ended = context_json.load_context(made.objects("context.json")[-1].read_bytes())
    last = list(find_results(ended.messages))[-1].content
    assert "the-models-own" in last
    assert "jobs.json" in last
    assert read_first_message(ended).count(ANNOUNCEMENT) == 1
