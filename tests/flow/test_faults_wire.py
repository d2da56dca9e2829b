"""GitLab and the model API in trouble: one note all the same, and no answer is paid for twice."""

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.flow import crew
from tests.flow.product import Product
from tests.flow.proxy import Proxy
from tests.jobs import FINDING, Job
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import GitLabSim
from worker.conversation.events import ignore_event
from worker.conversation.triggers import Trigger
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.write.writer import GitLabWriter
from worker.jobs import delivery
from worker.lab.script import Asked, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

FOR_A_WHILE = 1.0
"""Seconds; stands for ten minutes: a trigger is tried for most of an hour (errand.MAX_TRIES)."""

HASTY = (5.0, 0.5)
"""Seconds to connect, and to wait for an answer: half a minute in the product."""

TROUBLES: dict[str, dict[str, Any]] = {
    "502": {"status": 502},
    "429": {"status": 429, "headers": {"Retry-After": "1"}},
    "no answer": {"status": 502, "drop": True},
}


def troubled(gitlab: GitLabSim, kind: str) -> None:
    """GitLab is in trouble from now on, for a while."""
    stack = ExitStack()
    stack.enter_context(gitlab.fail_all(**TROUBLES[kind]))
    threading.Timer(FOR_A_WHILE, stack.close).start()


def overloaded(made: Product, times: int) -> None:
    """The model API has no room for the next requests, and says when to come again."""
    assert isinstance(made.model, AnthropicSim)
    made.model.fail_next(529, headers={"retry-after-ms": "20"}, times=times)


@pytest.mark.parametrize("kind", TROUBLES)
def test_a_gitlab_in_trouble_at_the_first_look_and_at_the_result_gets_its_one_note(
    tmp_path: Path, redis_url: str, kind: str
) -> None:
    def last(asked: Asked) -> Say:
        troubled(made.gitlab, kind)
        return crew.conclude(asked)

    with (
        crew.hasty(tmp_path, crew.script(last=last), redis_url) as made,
        crew.at_work(made) as worker,
    ):
        worker.until(lambda: any((tmp_path / "store" / "workers").glob("*")), "not at work")
        troubled(made.gitlab, kind)
        crew.fails(made)
        worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    (note,) = made.notes()
    assert "The command ran 1 times." in note.body
    assert len(made.model.requests) == 3
    crew.assert_nothing_left(made, crew.folder_store(made))


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize(
    "place", [rb"GET .*/pipelines/\d+ ", rb"POST .*/notes ", rb"PUT .*/notes/\d+ "]
)
def test_a_gitlab_that_takes_connections_and_does_not_answer_gets_its_one_note_later(
    tmp_path: Path, place: bytes, heard: bool
) -> None:
    with GitLabSim() as sim, Proxy(("127.0.0.1", int(sim.url.rpartition(":")[2]))) as between:
        at = Job(sim, tmp_path)
        at.script_answers(FINDING)
        read = ReadClient(between.url, at.scene.read_token, HASTY)
        deps = at.build_deps(
            reader=GitLabReader(read, sim.url, (), 30, sleep=lambda seconds: None),
            writer=GitLabWriter(between.url, at.scene.write_token, HASTY, lambda seconds: None),
        )
        between.silent_at(place, heard=heard)
        again: list[Trigger] = []
        delivery.deliver_trigger(
            at.make_trigger(), deps, ignore_event, lambda each, _: again.append(each)
        )
        assert again == [at.make_trigger()]
        while heard and not between.swallowed:
            time.sleep(0.01)
        between.speak()
        while again:
            delivery.deliver_trigger(
                again.pop(), deps, ignore_event, lambda each, _: again.append(each)
            )
        (note,) = at.list_notes()
        assert "A race in the test." in note.body
        assert len(at.model.requests) == 1
        assert list(at.store.records.list_names("journal/")) == []


def test_a_model_that_is_overloaded_and_then_breaks_off_its_answers_is_asked_again(
    tmp_path: Path, redis_url: str
) -> None:
    with (
        crew.hasty(tmp_path, crew.script(), redis_url) as made,
        Proxy(("127.0.0.1", int(made.model.url.rpartition(":")[2]))) as between,
    ):
        made.env["ANTHROPIC_BASE_URL"] = between.url
        overloaded(made, 4)
        between.pass_next(5)
        between.cut_next(250, times=2)
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    (note,) = made.notes()
    assert "The command ran 1 times." in note.body
    assert len(made.model.requests) == 3 + 4 + 2
    crew.assert_nothing_left(made, crew.folder_store(made))
