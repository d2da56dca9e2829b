"""The rules that an answer must pass to end a turn. Pure.

A text that is no answer at all is reported only for the first such rule that it breaks; an
incomplete answer is reported for everything that it lacks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from worker.answer.gate.promises import is_plan, is_promise
from worker.answer.gate.raw_data import is_broken_json, is_dump
from worker.answer.parse import parse_finding
from worker.conversation.answer_text import Block, has_written_call, read_blocks, split_sections
from worker.conversation.questions import find_left_out
from worker.verdict.verdict import CLAIMS, Verdict


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that would end a turn, and what is known of the turn.

    `is_finding_asked` says that the turn should end in the sections of a finding. `has_looked` says
    that the session has used a tool, or that there was nothing to look at. `tools` are the names of
    the tools, `parts` those of the question. `knows_missing` says that the host itself knows what
    evidence was missing. `can_quote` is False if there is no log to quote, or none is needed.
    """

    text: str
    is_finding_asked: bool = False
    has_looked: bool = True
    tools: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    knows_missing: bool = False
    can_quote: bool = True
    blocks: tuple[Block, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", read_blocks(self.text))

    @property
    def has_sections(self) -> bool:
        """Whether the text has any section of a finding."""
        return bool(split_sections(self.text).keys() - {""})

    @property
    def tells_by_call(self) -> bool:
        """Whether a tool call written as text stands where the cause, or the answer, should."""
        told = parse_finding(self.text).cause if self.has_sections else self.text
        return has_written_call(read_blocks(told), self.tools)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a text does not end a turn: `request` tells the model, `reason` the note's reader."""

    request: str
    reason: str


def find_failures(candidate: Candidate) -> tuple[Failure, ...]:
    """Return what is wrong with a text as the answer of a turn."""
    for applies, failure in _NO_ANSWER:
        if applies(candidate):
            return (failure,)
    return tuple(failure for rule in _LACKS for failure in rule(candidate))


def is_no_answer(candidate: Candidate) -> bool:
    """Return whether a text says nothing that was found: it is a call, a promise, or data."""
    return any(applies(candidate) for applies, _ in _NO_ANSWER)


def _is_promise(candidate: Candidate) -> bool:
    promises = is_promise(candidate.text) or is_plan(candidate.blocks)
    return promises and not candidate.has_sections


def _is_dump(candidate: Candidate) -> bool:
    shows = candidate.is_finding_asked and not candidate.has_sections
    return shows and is_dump(candidate.text, candidate.blocks)


_NO_ANSWER: tuple[tuple[Callable[[Candidate], bool], Failure], ...] = (
    (
        lambda candidate: has_written_call(candidate.blocks, candidate.tools),
        Failure(
            "It holds a tool call written as text, which was not run. Make the call as a tool "
            "call, or leave it out and write your answer.",
            "it held a tool call written as text",
        ),
    ),
    (
        lambda candidate: is_broken_json(candidate.text, candidate.blocks),
        Failure(
            "It is JSON that breaks off. Say in your own words what you found.",
            "it was JSON that breaks off",
        ),
    ),
    (
        _is_promise,
        Failure(
            "It says what you are going to do. Nobody answers it: do it now, with your tools, and "
            "then write your answer.",
            "it only said what would be done",
        ),
    ),
    (
        _is_dump,
        Failure(
            "It is data. Say in your own words what it shows.",
            "it was raw data without an explanation",
        ),
    ),
)


def _list_missing_sections(candidate: Candidate) -> Iterator[Failure]:
    if not candidate.is_finding_asked:
        return
    missing = ", ".join(_name_missing(candidate))
    if missing:
        yield Failure(
            f"These sections are missing, or empty: {missing}. Write the whole answer, in the "
            "sections that the workflow names.",
            f"it had no section {missing}",
        )


def _name_missing(candidate: Candidate) -> Iterator[str]:
    sections, finding = split_sections(candidate.text), parse_finding(candidate.text)
    if not sections.get("verdict"):
        yield "Verdict"
    if not finding.cause and finding.verdict is not Verdict.ABSTAIN:
        yield "Cause"
    elif not (finding.cause or finding.missing_evidence or candidate.knows_missing):
        yield "Missing"
    if finding.verdict in CLAIMS:
        yield from ["Evidence"] if candidate.can_quote and not sections.get("evidence") else []
        yield from ["What to do"] if not finding.to_do else []


def _list_no_look(candidate: Candidate) -> Iterator[Failure]:
    if not candidate.is_finding_asked or candidate.has_looked:
        return
    if not parse_finding(candidate.text).evidence:
        yield Failure(
            "No tool was used, and nothing is quoted. Look at the logs and the change first.",
            "nothing was looked at for it",
        )


def _list_left_out(candidate: Candidate) -> Iterator[Failure]:
    for part in find_left_out(candidate.parts, candidate.text):
        yield Failure(f"It leaves out this part of the question: {part}", "it left a part out")


_LACKS: tuple[Callable[[Candidate], Iterator[Failure]], ...] = (
    _list_missing_sections,
    _list_no_look,
    _list_left_out,
)
