"""What tiers cost: 40 conversations under the small model, the big one, and the cascade of both.

The requests are those of the real loop and codec, billed by the strict simulator of Anthropic's
cache at the catalogue's prices. A third of the conversations is too hard for the small model: it
ends unclear, and in the cascade the big one goes on. A switch has to cost one prompt without its
cache and nothing more: so what is billed is measured against the least for each model's requests
alone.

Also how long a reply takes that asks about the note, with and without a sandbox, and thanks.
"""

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from sandbox import build
from sandbox.docker import DockerDriver
from sandbox.spec import ContainerSpec
from tests.bench import prompt_cache
from tests.bench.sessions import ENDLESS, SYSTEM, TOOLS, Sent, Tools, Wire
from tests.contexts import context
from tests.fakes import HandClock, says
from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import Context, Outcome
from worker.conversation.events import ignore_event
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Usage, User
from worker.conversation.model import Model
from worker.conversation.tiers import TierChoice, TierModel, TierRules
from worker.lab.script import Answer, Asked, Call, Say, Script
from worker.models import built_in_models, table
from worker.settings.models import Signal
from worker.turns.loop import LoopParts, run_loop

CONVERSATIONS = 40
SMALL, BIG = "anthropic/claude-haiku-5-5", "anthropic/claude-opus-5-5"
DAY = date(2026, 11, 22)
OUTPUT = 300
"""Tokens of an answer, for its price."""

ROUNDS = 7

UNCLEAR, CLEAR = "UNCLEAR: the logs show no cause. " * 30, "The time-out is the cause. " * 30
BOTH = TierRules(
    {"balanced": TierModel(SMALL), "deep": TierModel(BIG)},
    TierModel(SMALL),
    upgrade=frozenset({Signal.UNCLEAR}),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation: so many requests until its end, whether the small model finds the cause, and
    how many requests the big one needs after it."""

    steps: int
    is_easy: bool
    more: int
    size: int


def draw_cases() -> list[Case]:
    """The same conversations in every run."""
    chance = random.Random(4)
    return [
        Case(chance.randint(3, 12), number % 3 != 0, chance.randint(2, 4), chance.randint(2, 9))
        for number in range(CONVERSATIONS)
    ]


@dataclass(frozen=True, slots=True)
class Ended:
    """What a conversation sent to each model, and whether it ended with a cause."""

    sent: dict[str, Sequence[Sent]]
    is_clear: bool


def play(case: Case, first: str, rules: TierRules) -> Ended:
    """One conversation that begins with the model `first`."""
    clock, wires = HandClock(), dict[str, Wire]()
    models = {name: _open(name, case, clock, wires) for name in (SMALL, BIG)}
    tier = "balanced" if first == SMALL else "deep"
    start = context(
        *(User(json.dumps({"project": "group/app", "log": "e" * 400})),),
        system=SYSTEM,
        tools=TOOLS,
        turn_usage=TurnUsage(started_at=clock.now()),
        model=first,
        tier=TierChoice(tier, first),
    )
    limits = replace(ENDLESS, tier_rules=rules)

    def change(context: Context) -> tuple[Model, Limits]:
        assert context.tier
        return models[context.tier.model], limits

    parts = LoopParts(
        *(models[first], Tools(clock, case.size * 1000), clock, lambda _: None, ignore_event),
        change_model=change,
        find_signal=_find_signal,
    )
    ended = run_loop(start, limits, parts)
    text = ended.outcome.text if ended.outcome else ""
    return Ended({name: wire.sent for name, wire in wires.items()}, text == CLEAR)


def _open(name: str, case: Case, clock: HandClock, wires: dict[str, Wire]) -> Model:
    wires[name] = Wire(_write_script(case, name), clock)
    return table.build_model(name, "", "key", clock=clock, transport=wires[name])


def _write_script(case: Case, name: str) -> Script:
    """The big model finds every cause; it needs `more` requests where the small one has ended."""
    made = 0

    def answer(asked: Asked) -> Answer:
        nonlocal made
        made += 1
        takes_over = name == BIG and asked.answers + 1 > made
        if made < (case.more if takes_over else case.steps):
            return Call([("look", {"at": f"{name}.{made}"})])
        return Say(CLEAR if name == BIG or case.is_easy else UNCLEAR)

    return answer


def _find_signal(context: Context, outcome: Outcome) -> Signal | None:
    return Signal.UNCLEAR if outcome.text.startswith("UNCLEAR") else None


@dataclass(frozen=True, slots=True)
class Bill:
    """Many conversations: dollars, requests, the share of input read from the cache, how many ended
    with a cause, and what was billed for input to the least for each model's requests."""

    dollars: float
    requests: int
    cached: float
    clear: int
    ratio: float


def add_up(ended: Iterable[Ended]) -> Bill:
    """The bill of conversations. Each has a cache of its own for each model."""
    dollars, clear, total, billed, least = 0.0, 0, Usage(), 0.0, 0.0
    requests = 0
    for each in ended:
        clear += each.is_clear
        for name, sent in each.sent.items():
            requests += len(sent)
            least += prompt_cache.least(sent)
            for tokens in prompt_cache.bill(sent, runs=True):
                usage = Usage(
                    tokens.uncached_tokens, tokens.read_tokens, tokens.written_tokens, OUTPUT
                )
                total += usage
                billed += prompt_cache.price(tokens)
                dollars += (
                    built_in_models.BUILT_IN.compute_price(name.partition("/")[2], usage, DAY)
                    or 0.0
                )
    return Bill(dollars, requests, total.cached_share, clear, billed / least)


WAYS: dict[str, Callable[[Case], Ended]] = {
    "balanced only": lambda case: play(case, SMALL, TierRules()),
    "deep only": lambda case: play(case, BIG, TierRules()),
    "cascade": lambda case: play(case, SMALL, BOTH),
}


@dataclass(frozen=True, slots=True)
class Replies:
    """Medians: seconds of a reply that works with a sandbox, and of one that asks about the note;
    CPU seconds of one that says thanks."""

    work: float
    question: float
    thanks: float


def measure_replies() -> Replies:
    """Replies to a note over the simulated GitLab, a folder and a real engine."""
    driver = DockerDriver(ContainerSpec(image=build.ensure_image(say=lambda _: None)))
    with GitLabSim() as sim, tempfile.TemporaryDirectory() as folder:
        job = Job(sim, Path(folder))
        job.script_answers(FINDING)
        job.run_failed()
        root = job.list_notes()[0].discussion_id

        def hear(text: str, time_now: Callable[[], float]) -> float:
            comment = job.write_comment(text, root)
            job.script_answers(says("Because of the race."))
            started = time_now()
            job.run_comment(comment, sandboxes=driver)
            return time_now() - started

        return Replies(
            _find_median(lambda: hear("Please check it again.", time.perf_counter)),
            _find_median(lambda: hear("Why do you think so?", time.perf_counter)),
            _find_median(lambda: hear("Thanks!", time.process_time)),
        )


def _find_median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(ROUNDS))


def main() -> None:
    """Print every figure beside its goal."""
    cases = draw_cases()
    hard = sum(not case.is_easy for case in cases)
    print(f"tiers: {CONVERSATIONS} conversations, {hard} too hard for {SMALL}; deep is {BIG}")
    print(f"  {'':16}{'dollars':>9}{'requests':>10}{'cached':>9}{'clear':>7}{'billed/least':>14}")
    for name, way in WAYS.items():
        bill = add_up(map(way, cases))
        cells = f"{bill.dollars:>9.4f}{bill.requests:>10}{bill.cached:>9.1%}{bill.clear:>7}"
        print(f"  {name:16}{cells}{bill.ratio:>14.3f}   goal 1.05")
    replies = measure_replies()
    share = replies.question / replies.work
    print(f"  a reply that works with a sandbox (s){replies.work:>27.3f}")
    print(f"  a question about the note (s){replies.question:>34.3f}")
    print(f"    to the reply with a sandbox{share:>33.3f}   goal 0.5")
    print(f"  thanks, CPU on both sides (ms){replies.thanks * 1000:>33.1f}   goal 50")
