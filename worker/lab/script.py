"""The scripted model: what a simulator answers, step by step.

A script answers by the content of a request, not by a counter of requests: any number of sessions
can share one simulator, and a repeated request gets the same answer.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result in the request."""

    name: str
    content: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as a script sees it, whatever the wire.

    `first` is the text that opened the session, `human` the newest text of a human (the same in
    turn 0). `turn` counts the replies of humans; `answers` the model's answers since `human`.
    `results` are all tool results, oldest first. `notice` is trailing text after the results.
    """

    first: str
    human: str
    turn: int
    answers: int
    results: tuple[Result, ...]
    notice: str
    tools_allowed: bool
    body: Mapping[str, Any]

    def get_last_result(self, name: str) -> Result:
        """Return the newest result of a tool. Raises LookupError if there is none."""
        for result in reversed(self.results):
            if result.name == name:
                return result
        raise LookupError(f"the request has no result of {name}")


@dataclass(frozen=True, slots=True)
class Say:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """Tool calls: names with arguments, and text before them if any."""

    calls: Sequence[tuple[str, Mapping[str, Any]]]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Think:
    """Signed thinking before an answer; current models leave its text empty."""

    answer: "Say | Call | Truncated"
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Neither text nor calls."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """An answer cut at its length limit, in the middle of its last call if it has any."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """A refusal by the provider's safety layer."""

    explanation: str
    category: str = "general_harms"


Answer = Say | Call | Think | Empty | Truncated | Refuse
Step = Answer | Callable[[Asked], Answer]
Script = Callable[[Asked], Answer]


class Scripted:
    """A list of steps for each turn: the analysis, the first reply, the second reply, …

    A turn past the last list runs the last list again. With tools switched off, the last step of
    the turn answers, as of a model that must conclude. An `Empty` step leaves no trace in the
    conversation: the first request in its place gets it, and the request after the nudge gets the
    next step.
    """

    def __init__(self, *turns: Sequence[Step]) -> None:
        self._turns = turns
        self._asked: Counter[tuple[str, int, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answer:
        """Return the answer. Raises LookupError after the script's last step."""
        steps = self._turns[min(asked.turn, len(self._turns) - 1)]
        step = self._choose_step(steps, asked) if asked.tools_allowed else steps[-1]
        return step(asked) if callable(step) else step

    def _choose_step(self, steps: Sequence[Step], asked: Asked) -> Step:
        spoken = [at for at, step in enumerate(steps) if not isinstance(step, Empty)]
        ends = [*spoken, len(steps)]
        if asked.answers < len(ends):
            before = spoken[asked.answers - 1] + 1 if asked.answers else 0
            place = (asked.first, asked.turn, asked.answers)
            with self._lock:
                repeats = self._asked[place]
                self._asked[place] += 1
            at = min(before + repeats, ends[asked.answers])
            if at < len(steps):
                return steps[at]
        raise LookupError(f"turn {asked.turn} has no step {asked.answers + 1}")
