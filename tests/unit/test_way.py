"""The way of a trigger through the house, as calls see it."""

import sys
from itertools import groupby
from types import FrameType
from typing import Any

from tests.jobs import FINDING, Job
from worker.app import build_app
from worker.conversation import decide
from worker.conversation.triggers import to_message
from worker.queue.messages import TASK
from worker.settings import Settings


def test_from_the_task_to_decide_the_way_leads_once_through_the_module_of_each_step(
    at: Job,
) -> None:
    at.script_answers(FINDING)
    ways: list[list[str]] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is decide.decide.__code__:
            ways.append(_modules(frame))

    task = build_app(Settings(broker="memory://"), at.build_deps).tasks[TASK]
    sys.setprofile(watch)
    try:
        task.run(to_message(at.make_trigger()))
    finally:
        sys.setprofile(None)
    assert len(ways[0]) == 13
    assert [module for module, _ in groupby(ways[0])] == [
        "worker.app",
        "worker.jobs.consumer",
        "worker.jobs.delivery",
        "worker.jobs.pipeline",
        "worker.turns.session",
        "worker.turns.turn",
        "worker.turns.investigate",
        "worker.turns.loop",
        "worker.conversation.decide",
    ]


def _modules(frame: FrameType | None) -> list[str]:
    """The modules of the house that the calls are in, outermost first."""
    found: list[str] = []
    while frame is not None:
        found.append(frame.f_globals["__name__"])
        frame = frame.f_back
    return [name for name in reversed(found) if name.startswith("worker.")]
