"""The whole loop over each server that offers Chat Completions, as it is."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import product
from tests.flow.test_folds import FINDING, lead_to
from tests.simulators.openai import ChatSim
from tests.simulators.openai.servers import SERVERS
from tests.wire.test_calls_in_text import CHANGES
from worker.conversation import context_json
from worker.conversation.context import Outcome, Status
from worker.conversation.messages import Assistant, find_results
from worker.lab.script import Answer, Call, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOOK: tuple[str, dict[str, Any]] = ("sandbox_exec", {"command": "ls /tmp/data"})
READ: tuple[str, dict[str, Any]] = ("sandbox_exec", {"command": "head -n 3 /tmp/data/*.log"})


@pytest.mark.parametrize("name", SERVERS)
def test_the_loop_ends_over_every_server_as_it_deviates(name: str, tmp_path: Path) -> None:
    like = SERVERS[name]
    # The same call twice, since some servers make the same id for it, and two at once.
    answers: list[Answer] = [
        Call([LOOK], "I look."),
        Call([LOOK]),
        Call([READ, LOOK]),
        Say(FINDING),
    ]
    said = iter(answers)
    simulator = partial(ChatSim, like=like)
    with product(tmp_path, lambda asked: next(said), "memory://", simulator) as made:
        lead_to(made, "chat", 100_000, "")
        done = made.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 0, done.stderr
        ended = context_json.load_context(made.objects("context.json")[-1].read_bytes())
        refused = set(made.model.unexpected_requests) - CHANGES
        assert len(refused) == like.refuses, refused
        native = [bool(each.get("tools")) for each in made.model.requests]
    assert native == [True, *[not like.goes_on_by_text] * (len(native) - 1)]
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    calls = [call for each in ended.messages if isinstance(each, Assistant) for call in each.calls]
    assert [json.loads(call.arguments) for call in calls[:3]] == [LOOK[1], LOOK[1], READ[1]]
    assert len({call.id for call in calls}) == len(calls) >= 3
    results = list(find_results(ended.messages))
    assert len(results) == len(calls)
    assert not any(each.is_error for each in results)
    assert "unit-tests" in results[0].content or "job-" in results[0].content
