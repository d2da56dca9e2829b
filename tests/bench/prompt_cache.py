"""What the prompt costs: billed input against the least any client could be billed for it.

The requests are those of the real loop and codec (see `sessions`), billed by the strict simulator
of Anthropic's cache: 0.1 for what is read, 1.25 for what is written, 1 for the rest.

The least is computed from the same requests, block by block. A block belongs to a prefix; whoever
only appends to a conversation sends it in `n` requests of the transcript. It costs at least 1 if
`n` is 1 (a notice, the tail of the last request), else 1.25 once and 0.1 each time after that. No
client knows beforehand which request is the last, so the least itself is out of reach by a
quarter of that request's tail. After a pause longer than the cache's lifetime everything has to be
paid anew, so a late reply is measured against the sum of both turns' least.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench.sessions import ENDLESS, THINKING, WORKING, Sent, Session, calling, empty_at
from worker.conversation.limits import Limits
from worker.lab.anthropic.protocol import InputTokens, PrefixCache
from worker.lab.script import Answer, Asked, Call, Script

READ, WRITE = 0.1, 1.25
COUNTS = (8, 20, 50)
FLEET = 10
"""Sessions of the fleet, one a minute."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests in the order they were sent, and the least they could have cost."""

    sent: Sequence[Sent]
    least: float

    def ratio(self, *, runs: bool) -> float:
        """Billed against least; `runs` counts a run of calls or results as one position."""
        return sum(map(price, bill(self.sent, runs=runs))) / self.least

    def billed(self) -> float:
        """What the requests cost, in plain input tokens."""
        return sum(map(price, bill(self.sent, runs=True)))

    def uncached(self) -> float:
        """What it would be without any cache, for orientation."""
        return sum(request.transcript[-1].tokens for request in self.sent) / self.least


def bill(sent: Iterable[Sent], *, runs: bool) -> list[InputTokens]:
    """What each request is billed, in the order they were sent."""
    time = 0.0
    cache = PrefixCache(now=lambda: time)
    billed = []
    for request in sent:
        time = request.at
        billed.append(cache.account(request.runs if runs else request.blocks))
    return billed


def price(billed: InputTokens) -> float:
    """In plain input tokens."""
    return billed.uncached_tokens + READ * billed.read_tokens + WRITE * billed.written_tokens


def least(sent: Iterable[Sent]) -> float:
    """The least an append-only client could be billed for these requests."""
    times: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for request in sent:
        before = 0
        for block in request.transcript:
            times[block.key] += 1
            sizes[block.key] = block.tokens - before
            before = block.tokens
    return sum(sizes[key] * min(n, WRITE + READ * (n - 1)) for key, n in times.items())


# -------------------------------------------------------------------------------------- the cases


def plain(count: int, parallel: int = 1) -> Measured:
    """Calls, and an answer when the model is done."""
    return _run(calling(count, parallel))


def warned(count: int, parallel: int = 1) -> Measured:
    """Warnings of iterations and time with each of the last requests, then the forced final one."""
    return _run(calling(10**6, parallel), count=count)


def thinking(count: int) -> Measured:
    """The same with signed thinking, so that a few warnings stay in the history."""
    return _run(calling(10**6, thinks=True), count=count)


def nudged(count: int) -> Measured:
    """An empty answer half way through."""
    return _run(empty_at(calling(count), count // 2))


def defied(count: int) -> Measured:
    """The model calls on when told that it cannot: one extra request, tools off on the wire."""

    def answer(asked: Asked) -> Answer:
        obeys = calling(10**6)(asked)
        return Call([("look", {"at": asked.answers})]) if asked.tools_allowed else obeys

    return _run(answer, count=count)


def replied(
    count: int, *, after: float = 120.0, requests: int = 1, forced: bool = False
) -> Measured:
    """A turn, and a reply that takes `requests` more."""

    def answer(asked: Asked) -> Answer:
        return calling(requests if asked.turn else count)(asked)

    session = Session(answer)
    session.run(_limits(count) if forced else ENDLESS)
    first = len(session.sent)
    session.reply(after)
    session.run()
    if after < 300:
        return Measured(session.sent, least(session.sent))
    return Measured(session.sent, least(session.sent[:first]) + least(session.sent[first:]))


def late(count: int) -> Measured:
    """A reply after the cache's lifetime."""
    return replied(count, after=600.0, requests=3)


def fleet(count: int) -> Measured:
    """Sessions of one workflow that start one a minute, each against its own least."""
    sessions = [Session(calling(count), start=60.0 * number) for number in range(FLEET)]
    for session in sessions:
        session.run()
    sent = sorted((request for each in sessions for request in each.sent), key=lambda r: r.at)
    return Measured(sent, sum(least(session.sent) for session in sessions))


def _run(script: Script, *, count: int = 0) -> Measured:
    session = Session(script)
    session.run(_limits(count) if count else ENDLESS)
    return Measured(session.sent, least(session.sent))


def _limits(count: int) -> Limits:
    """So that `count` iterations are all there are; time is short as well, and warned of apart."""
    return ENDLESS.model_copy(
        update={"max_iterations": count, "wall_clock": count * (THINKING + WORKING)}
    )


Case = Callable[[int], Measured]
CASES: dict[str, tuple[Case, dict[int, float]]] = {
    "plain": (plain, dict.fromkeys(COUNTS, 1.02)),
    "warnings and the forced final request": (warned, dict.fromkeys(COUNTS, 1.02)),
    "the same with signed thinking": (thinking, dict.fromkeys(COUNTS, 1.02)),
    "an empty answer and its nudge": (nudged, dict.fromkeys(COUNTS, 1.02)),
    "5 parallel calls": (partial(warned, parallel=5), dict.fromkeys(COUNTS, 1.03)),
    "12 parallel calls": (partial(warned, parallel=12), dict.fromkeys(COUNTS, 1.03)),
    "a reply in time": (replied, dict.fromkeys(COUNTS, 1.05)),
    "a reply in time, of three requests": (
        partial(replied, requests=3),
        dict.fromkeys(COUNTS, 1.05),
    ),
    "a forced final request, a reply in time": (
        partial(replied, forced=True),
        dict.fromkeys(COUNTS, 1.05),
    ),
    "a reply after the cache's lifetime": (late, {}),
    "a fleet, one session a minute": (fleet, {8: 0.85}),
    "calls in the final answer: tools off": (defied, {}),
}
"""Every case, and its goal by the number of iterations."""


def main() -> None:
    """Print each case's ratio on the Claude API, and block by block as Vertex AI may count."""
    print("cache: billed input / the least possible for the same requests (block by block)")
    print(f"  {'iterations':40}" + "".join(f"{count:>16}" for count in COUNTS) + "   goal")
    for name, (case, goals) in CASES.items():
        cells = "".join(f"{_cell(case(count)):>16}" for count in COUNTS)
        told = ", ".join(sorted({f"{goal:.2f}" for goal in goals.values()}))
        print(f"  {name:40}{cells}   {told}{' at 8' if len(goals) == 1 else ''}")
    bare = "".join(f"{plain(count).uncached():>16.2f}" for count in COUNTS)
    print(f"  {'plain, if nothing were cached':40}{bare}")
    for name, case, thinks in (("notices", warned, False), ("notices that stay", thinking, True)):
        parts = (_compute_share(case(count), count, thinks=thinks) for count in COUNTS)
        print(f"  {name + ', share of the bill':40}" + "".join(f"{part:>16.2%}" for part in parts))


def _compute_share(noticed: Measured, count: int, *, thinks: bool) -> float:
    """What the notices of as many requests add to the bill."""
    return noticed.billed() / _run(calling(count, thinks=thinks)).billed() - 1


def _cell(measured: Measured) -> str:
    return f"{measured.ratio(runs=True):.3f} ({measured.ratio(runs=False):.3f})"
