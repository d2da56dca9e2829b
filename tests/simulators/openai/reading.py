"""A request of either wire as the script sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulators.openai.protocol import Json
from worker.conversation.prompts import write_continuation
from worker.lab.script import Asked, Result

_REPLY = write_continuation("", files="", seconds=0.0, changes=()).splitlines()[0]
_FAILED = "ERROR: "


@dataclass
class Side:
    """What one side said in a row."""

    ours: bool
    texts: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


class Sides:
    """The sides of a conversation, from messages or items in their order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.found: list[Side] = []

    def said(self, text: str, *, ours: bool) -> None:
        """Text of one side."""
        self._side(ours).texts.append(text)

    def called(self, call_id: str, name: str) -> None:
        """A call of the model."""
        self._side(False)
        self._names[call_id] = name

    def answered(self, call_id: str, content: str) -> None:
        """A result for it."""
        failed = content.startswith(_FAILED)
        result = Result(self._names[call_id], content.removeprefix(_FAILED), failed)
        self._side(True).results.append(result)

    def _side(self, ours: bool) -> Side:
        if not self.found or self.found[-1].ours != ours:
            self.found.append(Side(ours))
        return self.found[-1]


def read(sides: Sequence[Side], *, tools_allowed: bool, body: Json) -> Asked:
    """The view of a valid body."""
    humans = [at for at, side in enumerate(sides) if _is_human(side, first=at == 0)]
    newest = humans[-1]
    return Asked(
        # On a wire that joins neighbouring texts, a notice may have been joined to the first.
        first=sides[0].texts[0].partition("\n\n")[0],
        human=_human_text(sides[newest].texts),
        turn=len(humans) - 1,
        answers=sum(not side.ours for side in sides[newest:]),
        results=tuple(result for side in sides for result in side.results),
        notice="\n".join(sides[-1].texts if sides[-1].results else sides[-1].texts[1:]),
        tools_allowed=tools_allowed,
        body=body,
    )


def _is_human(side: Side, *, first: bool) -> bool:
    """Text after results is a notice, unless it opens a reply to a run that was cut off."""
    if not side.ours:
        return False
    replied = any(_REPLY in text for text in side.texts)
    return first or replied or not side.results


def _human_text(texts: Sequence[str]) -> str:
    return next((text for text in texts if _REPLY in text), texts[0] if texts else "")
