"""What comes after a verdict is kept in its row, and counted once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulators.gitlab import GitLabSim
from tests.surveyed import At, concludes
from worker.conversation.context import SessionKey
from worker.conversation.events import Event, VerdictJudged
from worker.gitlab.write.note_writers import DryRunWriter
from worker.sessions.recent import Row, load_row
from worker.turns import outcomes, stored_turns
from worker.turns.parts import Attempt, Finished
from worker.turns.session import answer_reply
from worker.verdict.aftermath import DOWN, UP, Feedback, Label, dump_feedback

pytestmark = pytest.mark.slow


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    with GitLabSim() as running:
        made = At(running, tmp_path)
        made.script_answers(*([concludes("flaky")] * 9))
        yield made
        assert running.unexpected_requests == []


def analyse(at: At) -> SessionKey:
    ended = at.run_failed(at.flake(at.scene.mr))
    assert isinstance(ended, Finished)
    return ended.key


def read_row(at: At) -> Row:
    ((_, data),) = at.store.recent_turns.list_newest(9)
    return load_row(data)


def vote(at: At, key: SessionKey, *votes: str) -> None:
    given = Feedback({str(number): each for number, each in enumerate(votes)}, 1.0)
    at.store.change_feedback(key, 0, lambda old: dump_feedback(given))


def test_votes_are_kept_and_counted_where_they_change_the_label(at: At) -> None:
    key, deps, seen = analyse(at), at.build_deps(), list[Event]()
    assert read_row(at).label == ""
    vote(at, key, UP)
    outcomes.update_judgement(key, 0, deps, seen.append, votes_before=Feedback())
    assert (read_row(at).label, len(seen)) == ("confirmed", 1)
    vote(at, key, UP, UP)
    outcomes.update_judgement(key, 0, deps, seen.append, votes_before=Feedback({"0": UP}))
    assert len(seen) == 1
    vote(at, key, UP, DOWN, DOWN)
    outcomes.update_judgement(key, 0, deps, seen.append, votes_before=Feedback({"0": UP, "1": UP}))
    assert read_row(at).label == "contradicted"
    assert read_row(at).label_reason == "readers say that it is wrong"
    assert [each.label for each in seen if isinstance(each, VerdictJudged)] == [
        Label.CONFIRMED,
        Label.CONTRADICTED,
    ]


def test_what_cannot_be_read_is_not_judged(at: At) -> None:
    seen: list[Event] = []
    outcomes.update_judgement(SessionKey(1, 1, "a" * 20), 0, at.build_deps(), seen.append)
    assert seen == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_answer_that_was_only_printed_judges_no_verdict_and_is_not_the_sessions(
    at: At, dry_run: bool
) -> None:
    key = analyse(at)
    posted = at.of(at.scene.mr)
    at.script_answers(*([concludes("infrastructure")] * 9))
    terminal = {"writer": DryRunWriter(), "dry_run": True, "salt": "one of its own"}
    deps = at.build_deps(**(terminal if dry_run else {}))
    ended = answer_reply(key, "Look again.", deps, Attempt(), first_look=True)
    assert isinstance(ended, Finished)
    rows = [load_row(data) for _, data in at.store.recent_turns.list_newest(9)]
    found = {row.turn: (row.verdict, row.label, row.dry_run, row.began_dry) for row in rows}
    known = stored_turns.find_verdict(key, 1, at.build_deps())
    assert known is not None
    assert ("Reply to ask more" in ended.body) is not dry_run
    if dry_run:
        assert found == {
            0: ("flaky", "", False, False),
            1: ("infrastructure", "", True, False),
        }
        assert (known.turn, at.of(at.scene.mr)) == (0, posted)
    else:
        assert found[0] == ("flaky", "contradicted", False, False)
        assert known.turn == 1
