"""Two lines of a log, quoted in an answer, turn no verdict and take nothing else out of a note."""

from collections.abc import Callable

import pytest

from tests.attacks.redaction.hidden_lines import HONEST, PAIRS
from tests.attacks.redaction.test_split import (
    DONE,
    FOOTER,
    MARKER,
    PLACES,
    SUBJECT,
    posted,
    redacted,
)
from tests.contexts import context
from tests.unit.answer.captures import Held
from worker.answer import repair
from worker.answer.finish import LEFT_OUT
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.answer.proof import prove_reply
from worker.conversation.context import Outcome, Status
from worker.safety.markdown import write_code_line
from worker.safety.redacted_values import redact_values
from worker.verdict.finding import Finding, JobLog
from worker.verdict.verdict import Verdict

pytestmark = pytest.mark.attack("redaction")

ANSWER = """It begins with {first}

## Verdict
Caused by this change

## Failed
unit

## Cause
{first}: the widget is gone.

## Evidence
{quotes}

## What to do
Bring the widget back. See {last}

## Details
It ends with {last}
"""


def _log(pair: str, honest: str) -> list[str]:
    """The log as it was captured, with the two lines that a stranger has written."""
    first, last = PAIRS[pair]
    lines = [*first.split("\n"), *HONEST[honest], *last.split("\n")]
    return redacted("\n".join(lines)).split("\n")


def _answer(pair: str, honest: str) -> str:
    """The answer of a model that quotes the whole log, and repeats the two lines in its prose."""
    first, last = (line.strip().replace("\n", " ") or "nothing" for line in PAIRS[pair])
    quotes = (
        f"- job 7 line {number}: {line}"
        for number, line in enumerate(_log(pair, honest), 1)
        if line.strip()
    )
    return ANSWER.format(first=first, last=last, quotes="\n".join([*quotes][:20]))


def _read(pair: str, honest: str) -> Finding:
    outcome = Outcome(Status.DONE, _answer(pair, honest))
    held = Held({JobLog(7): "\n".join(_log(pair, honest))})
    return repair.make_finding(context(outcome=outcome), outcome, held, redacted)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_verdict_and_its_quotes_stay(
    pair: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(HONEST))
    for honest, lines in HONEST.items():
        found = _read(pair, honest)
        assert found.verdict is Verdict.CHANGE
        assert "the widget is gone" in found.cause
        assert "Bring the widget back" in found.to_do
        quoted = [quote.text for quote in found.evidence]
        assert [line.strip() for line in lines[:10]] == [
            line for line in quoted if line in {each.strip() for each in lines[:10]}
        ]
        body = posted(note.write_finding(MARKER, Layout(found, SUBJECT, DONE, PLACES), FOOTER))
        assert "**Caused by this change**" in body
        assert all(line.strip()[:40] in body for line in lines[:10])
        assert "widget is gone" in body
        assert "Bring the widget back" in body


@pytest.mark.parametrize("pair", PAIRS)
def test_a_reply_keeps_what_stands_between_them(
    pair: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(HONEST))
    for honest, lines in HONEST.items():
        held = Held({JobLog(7): "\n".join(_log(pair, honest))})
        parts = redact_values(prove_reply(_answer(pair, honest), held), redacted)
        body = posted(note.write_answer(MARKER, SUBJECT, parts, DONE, FOOTER, PLACES))
        assert all(line.strip()[:40] in body for line in lines[:10])
        assert "widget is gone" in body


@pytest.mark.parametrize("pair", PAIRS)
def test_the_last_look_rewrites_nothing(pair: str) -> None:
    """Also where values come to it that nobody has redacted."""
    first, last = PAIRS[pair]
    lines = [line for each in HONEST.values() for line in each]
    body = "\n\n".join(
        [
            *(MARKER.text(), "**Caused by this change**", "**Cause:** gone"),
            "\n".join(f"- {write_code_line(line)}" for line in [first.split("\n")[0], *lines]),
            f"It ends with {write_code_line(last.split(chr(10))[-1]) or 'nothing'}",
            *("Last.", "<sub>small</sub>"),
        ]
    )
    made = posted(body)
    shown = made.split("\n")
    assert "**Caused by this change**" in shown
    assert all(f"- {write_code_line(line)}" in shown for line in lines)
    assert "[redacted" not in made.replace("[redacted: private-key`", "")


def test_a_part_that_reads_like_a_secret_is_refused_and_no_other() -> None:
    secret = "Tr0ub" + "4dor&3"
    body = f"{MARKER.text()}\n\n**Flaky**\n\nthe password: {secret} of it\n\n| a |\n|---|\n| b |"
    assert posted(body) == (
        f"{MARKER.text()}\n\n**Flaky**\n\n\n{LEFT_OUT}\n\n\n| a |\n|---|\n| b |"
    )
