"""Laws over the requests of whole sessions: what was written to the cache is read again.

The bodies are those of the real loop and codec; the simulated API refuses what the real one does,
more than four marks among it.
"""

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tests.bench import prompt_cache
from tests.bench.folds import call_often
from tests.bench.prompt_cache import CASES, bill
from tests.bench.sessions import ENDLESS, UNFOLDED, Session, calling
from worker.conversation.messages import User
from worker.conversation.model import LIFETIME
from worker.lab.script import Answer, Asked, Call, Empty, Say, Script, Think, Truncated
from worker.settings.runs import ContextSettings, Resume, Strategy

pytestmark = pytest.mark.slow

MARK = b',"cache_control":{"type":"ephemeral"}'
OFF = b'"tool_choice":{"type":"none"}'
SEEDS = range(26)


def erratic(rng: Random) -> Script:
    """A model that does everything models do, at random."""

    def answer(asked: Asked) -> Answer:
        roll = rng.random()
        made = Call([("look", {"n": n}) for n in range(rng.choice((1, 1, 2, 5, 14)))])
        if not asked.tools_allowed or ("switched off" in asked.notice and roll > 0.7):
            return Say("Enough said.")
        if roll < 0.08:
            return Empty()
        if roll < 0.14:
            return Truncated("Half a", made.calls)
        if roll < 0.2:
            return Think(Say("That is it."))
        return Think(made) if roll < 0.6 else replace(made, text="Let me look.")

    return answer


@cache
def session(seed: int, settings: ContextSettings = UNFOLDED) -> Session:
    """Up to four turns, some after the cache's lifetime, under budgets that run out."""
    rng = Random(seed)
    made = Session(erratic(rng), new=2_000, keep=True)
    for _ in range(rng.randint(1, 4)):
        most, seconds = rng.randint(1, 14), rng.choice((1e9, 200.0))
        made.run(
            ENDLESS.model_copy(
                update={"max_iterations": most, "wall_clock": seconds, "context": settings}
            )
        )
        made.reply(rng.choice((5.0, 60.0, 200.0, 400.0)))
    made.run(ENDLESS.model_copy(update={"max_iterations": 6, "context": settings}))
    return made


@pytest.mark.parametrize("runs", [True, False], ids=["claude api", "block by block"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_newest_living_entry_is_read_by_the_next_request(seed: int, runs: bool) -> None:
    sent = session(seed).sent
    entry, written_at = 0, float("-inf")
    for request, billed in zip(sent, bill(sent, runs=runs), strict=True):
        if OFF in request.raw:
            continue
        if request.at - written_at < LIFETIME:
            assert billed.read_tokens >= entry
        entry, written_at = billed.read_tokens + billed.written_tokens, request.at
        # All that will be sent again is written; what is not is a notice.
        assert billed.uncached_tokens < 100


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_only_ever_appends_to_the_bytes_before_its_marks(seed: int) -> None:
    assert not count_rewrites(session(seed))


def test_a_fold_rewrites_the_bytes_before_the_marks_once() -> None:
    sessions = [session(seed, ContextSettings(resume=Resume.PRUNE)) for seed in SEEDS]
    folds = [len({fold.made_at for fold in each.context.folds}) for each in sessions]

    assert sum(folds) >= 3
    assert [count_rewrites(each) for each in sessions] == folds


def count_rewrites(made: Session) -> int:
    """How many requests do not begin with all that the one before had up to its last mark."""
    sent = [request.raw for request in made.sent if OFF not in request.raw]
    stable = (raw[: raw.rindex(MARK)].replace(MARK, b"") for raw in sent)
    later = (raw.replace(MARK, b"") for raw in sent[1:])
    return sum(not after.startswith(before) for before, after in zip(stable, later, strict=False))


def test_the_random_sessions_hold_what_the_laws_are_about() -> None:
    sessions = [session(seed) for seed in SEEDS]
    sent = [request for each in sessions for request in each.sent]
    kept = [each for each in sessions if any("finish, with only" in m.text for m in texts(each))]

    assert any(request.raw.count(MARK) == 4 for request in sent)
    assert any(OFF in request.raw for request in sent)
    assert kept
    assert len(sent) > 300


def texts(made: Session) -> list[User]:
    return [message for message in made.context.messages if isinstance(message, User)]


@pytest.mark.parametrize("iterations", [8, 20, 50])
def test_warnings_that_stay_in_the_history_are_few_and_the_bytes_before_them_stay(
    iterations: int,
) -> None:
    made = Session(calling(10**6, thinks=True), keep=True)
    made.run(ENDLESS.model_copy(update={"max_iterations": iterations}))
    kept = [text.text for text in texts(made)[1:]]

    assert 1 <= len(kept) <= 4
    assert all(text.startswith("Iteration ") for text in kept)
    assert not count_rewrites(made)


def test_a_warning_that_was_folded_away_is_given_again() -> None:
    settings = ContextSettings(strategy=Strategy.WINDOW, keep_last=2)
    made = Session(calling(10**6, thinks=True))
    made.run(
        ENDLESS.model_copy(
            update={"max_iterations": 200, "context_tokens": 64_000, "context": settings}
        )
    )
    kept = [each.text for each in texts(made)[1:] if each.text.startswith("Iteration ")]
    folds = {fold.made_at for fold in made.context.folds if fold.leaves_out}

    assert len(kept) > 4
    assert len(kept) <= 4 + len(folds)


@pytest.mark.parametrize("name", [name for name, (_, goals) in CASES.items() if goals])
def test_a_short_session_is_billed_hardly_more_than_the_least_possible(name: str) -> None:
    case, goals = CASES[name]
    measured = case(8)

    assert measured.ratio(runs=True) <= goals[8]
    assert measured.ratio(runs=False) <= goals[8]
    assert measured.uncached() > 2


@pytest.mark.parametrize("strategy", [Strategy.PRUNE, Strategy.WINDOW, Strategy.SUMMARY])
def test_a_folded_session_is_billed_hardly_more_than_the_least_for_its_folds(
    strategy: Strategy,
) -> None:
    made = Session(call_often(90), new=8_000)
    settings = ContextSettings(strategy=strategy)
    made.run(ENDLESS.model_copy(update={"context_tokens": 64_000, "context": settings}))
    measured = prompt_cache.Measured(made.sent, prompt_cache.least(made.sent))

    assert len({fold.made_at for fold in made.context.folds}) >= 3
    assert measured.ratio(runs=True) <= 1.05


def test_the_least_is_out_of_reach_by_the_write_of_the_last_tail_only() -> None:
    measured = prompt_cache.plain(8)
    last = bill(measured.sent, runs=True)[-1]
    billed = sum(map(prompt_cache.price, bill(measured.sent, runs=True)))

    assert billed - measured.least == pytest.approx(0.25 * last.written_tokens)


def test_a_resumed_run_reads_the_whole_saved_prefix_at_its_first_request() -> None:
    made = Session(calling(6, 12))
    made.run()
    made.reply(LIFETIME - 20.0)
    made.run()
    for runs in (True, False):
        *_, last, resumed = bill(made.sent[:7], runs=runs)
        assert resumed.read_tokens == last.total


def test_a_reply_after_the_lifetime_pays_once_and_marks_no_dead_entry() -> None:
    made = Session(calling(4), keep=True)
    made.run()
    made.reply(LIFETIME + 1)
    made.run()

    assert made.sent[3].raw.count(MARK) == 3
    assert made.sent[4].raw.count(MARK) == 2
    assert bill(made.sent, runs=True)[4].read_tokens == 0


def test_the_sessions_of_a_workflow_read_each_other_s_tools_and_system_prompt() -> None:
    first, second = Session(calling(2)), Session(calling(2), start=60.0)
    first.run()
    second.run()
    opening = bill([*first.sent, *second.sent], runs=True)[2]

    assert opening.read_tokens > 0.9 * opening.total
