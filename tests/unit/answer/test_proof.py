"""Only what stands byte for byte in captured evidence is proven; the rest is told apart."""

from random import Random
from typing import Any

import pytest

from tests.linear import takes_linear_time
from tests.unit.answer.captures import Held
from worker.answer.parse import parse_finding
from worker.answer.proof import MAX_LIKELY, find_unproven, prove_finding, prove_reply
from worker.verdict.finding import (
    Evidence,
    Finding,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    Unproven,
)
from worker.verdict.verdict import Verdict

LOG, FILE = JobLog(7), RepoFile("src/a.py")


def at(line: int, text: str, place: Place = LOG, last: int = 0) -> Evidence:
    return Evidence(place, line, text, last=last or line)


def proven(quote: Evidence, **texts: str) -> Evidence | None:
    held = Held({LOG: "\n" * 11 + texts.get("log", ""), FILE: texts.get("file", "")})
    found = prove_finding(Finding(evidence=(quote,)), held).evidence
    return found[0] if found else None


@pytest.mark.parametrize(
    ("line", "quote", "stands"),
    [
        pytest.param("  error: no such file", "error: no such file", True, id="the whole line"),
        pytest.param("boom", "boom", True, id="a short line, whole"),
        pytest.param("it went boom", "boom", False, id="a short part"),
        pytest.param("ld: error: no such file", "error: no such file", True, id="a long part"),
        pytest.param("error: no such file", "error:  no such file", False, id="other blanks"),
        pytest.param("error: no such file", "Error: no such file", False, id="another case"),
        pytest.param("error: no such file", "error: no … file", False, id="shortened within"),
        pytest.param("error: no such file a/b", "error: no such file…", True, id="cut at its end"),
        pytest.param("error", "", False, id="nothing"),
        pytest.param("", "", False, id="nothing of nothing"),
        pytest.param("a b c d e f g h", "a b c d e f g", False, id="too few letters"),
    ],
)
def test_a_quote_is_proven_byte_for_byte(line: str, quote: str, stands: bool) -> None:
    assert bool(proven(at(12, quote), log=line)) == stands


@pytest.mark.parametrize(
    ("off", "others", "stands"),
    [(0, 1, True), (1, 1, True), (-2, 1, True), (3, 1, False), (3, 0, True), (900, 0, True)],
)
def test_a_line_number_may_be_off_by_two_and_by_more_if_the_text_is_there_once(
    off: int, others: int, stands: bool
) -> None:
    log = "error: no such file" + "\n" * 30 + "error: no such file\n" * others
    found = proven(at(12 + off, "error: no such file"), log=log)
    assert bool(found) == stands
    if found:
        assert (found.line, found.url) == (12, "https://gitlab.example.com/job/7#L12")


JOIN = RepoFile("fanout/pool.py")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("`close` (fanout/pool.py line 104) joins.", "`close` (fanout/pool.py line 69) joins."),
        ("See `pool.py:104`, at line 104.", "See `pool.py:69`, at line 69."),
        ("In `fanout/pool.py`, lines 104-105: so.", "In `fanout/pool.py`, lines 69-70: so."),
        ("Line 104 of pool.py, pool.py#L104", "Line 69 of pool.py, pool.py#L69"),
        ("job 7 line 104, other.py:104, b/pool.py line 104, 104", None),
        ("lines 103-104, line 1040, 12:104, version 2.104", None),
        ("```\nfanout/pool.py:104\n```", None),
    ],
)
def test_a_line_number_that_is_corrected_is_corrected_in_the_prose_too(
    said: str, shown: str | None
) -> None:
    held = Held({JOIN: "\n" * 68 + "self._join()  # first\nself._join()\n", LOG: "it hangs"})
    quote = at(104, "self._join()  # first\nself._join()", JOIN, last=105)
    finding = Finding(Verdict.CHANGE, cause=said, to_do=said, evidence=(quote,))
    assert not find_unproven(finding, held)
    found = prove_finding(finding, held)
    assert (found.evidence[0].line, found.evidence[0].last, found.unproven) == (69, 70, 0)
    assert (found.cause, found.to_do) == (shown or said,) * 2


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("It crashes on line 50.", "It crashes on line 120."),
        ("Job 7 line 50, the log's line 50", "Job 7 line 120, the log's line 120"),
        ("See app.py.\n\n\nIt ends on line 50.", "See app.py.\n\n\nIt ends on line 120."),
        ("`src/app.py` crashes on line 50.", None),
        ("src/app.py crashes on\nline 50.", None),
        ("Line 50 of src/app.py is new.", None),
        ("Line 50 is new in app.py.", None),
        ("the Makefile, line 50", None),
        ("In the Dockerfile line 50", None),
        ("Job 8 ends on line 50.", None),
        ("The `lint` job ends on line 50.", None),
        ("The report has it on line 50.", None),
        ("The file has it on line 50.", None),
    ],
)
def test_a_number_near_the_name_of_another_place_stays_in_the_prose(
    said: str, shown: str | None
) -> None:
    held = Held({LOG: "\n" * 119 + "error: no such file\n"})
    finding = Finding(Verdict.CHANGE, cause=said, evidence=(at(50, "error: no such file"),))
    found = prove_finding(finding, held)
    assert found.evidence[0].line == 120
    assert found.cause == (shown or said)


def test_a_line_number_that_another_quote_really_has_stays_in_the_prose() -> None:
    held = Held({JOIN: "\n" * 68 + "self._join()  # first\n", LOG: "\n" * 103 + "it hangs"})
    quotes = (at(104, "self._join()  # first", JOIN), at(104, "it hangs"))
    found = prove_finding(Finding(cause="It hangs on line 104.", evidence=quotes), held)
    assert [quote.line for quote in found.evidence] == [69, 104]
    assert found.cause == "It hangs on line 104."


@pytest.mark.parametrize(
    ("line", "text", "shown"),
    [
        (12, "12: error: no such file", "error: no such file"),
        (12, "12|   error: no such file", "error: no such file"),
        (12, "12 +  error: no such file", "error: no such file"),
        (12, "12: error: no such file\n13:", "error: no such file\n"),
        (12, "12: error: no such file\n14:", None),
        (13, "12: error: no such file", "error: no such file"),
        (12, "13: error: no such file", None),
        (12, "12: error: no such door", None),
        (12, "12:", None),
        (14, "14: it is", "14: it is"),
    ],
)
def test_a_quote_may_have_the_number_that_a_preview_shows_before_its_line(
    line: int, text: str, shown: str | None
) -> None:
    quote = at(line, text, last=line + text.count("\n"))
    found = proven(quote, log="  error: no such file\n\n14: it is\n")
    assert (found and found.text) == shown


def test_without_a_line_number_only_a_tests_message_is_proven() -> None:
    assert proven(at(0, "error: no such file"), log="error: no such file") is None


def test_several_lines_stand_one_after_the_other_and_are_shown_as_captured() -> None:
    code = "def f():\n    if x:\n\n        return 1\n    return 2"
    quote = at(2, "if x:\n\nreturn 1", FILE, last=4)
    found = proven(quote, file=code)
    assert found is not None
    assert (found.line, found.last, found.text) == (2, 4, "if x:\n\n    return 1")
    assert found.url.endswith("#L2-4")
    assert proven(at(2, "if x:\nreturn 1", FILE, last=4), file=code) is None
    assert proven(at(2, "if x: return 1", FILE, last=4), file=code) is None


def test_every_kind_of_place_is_proven_and_only_in_itself() -> None:
    places: tuple[Place, ...] = (
        LOG,
        FILE,
        RepoFile("src/a.py", "main"),
        JobArtifact(7, "a"),
        ReportedTest("t"),
    )
    held = Held({place: f"this is in number {number}" for number, place in enumerate(places)})
    for number, place in enumerate(places):
        line = 0 if isinstance(place, ReportedTest) else 1
        for other in range(len(places)):
            quote = at(line, f"this is in number {other}", place)
            assert bool(prove_finding(Finding(evidence=(quote,)), held).evidence) == (
                number == other
            )


def test_the_same_lines_are_shown_once_and_read_once() -> None:
    held = Held({LOG: "error: no such file"})
    twice = (at(1, "error: no such file"), at(2, "error: no such"))
    finding = prove_finding(Finding(evidence=twice), held)
    assert (len(finding.evidence), finding.unproven, held.read) == (1, 0, [LOG])


def test_what_failed_is_told_with_what_is_really_there() -> None:
    log = [*(f"line number {number}" for number in range(1, 9)), "", "", "line number 7"]
    held = Held({LOG: "\n".join(log)})
    evidence = (at(4, "something else"), at(2, "line number 7"), at(90, "x"), at(1, "x", FILE))
    assert find_unproven(Finding(evidence=evidence, unread=("- so it is",)), held) == (
        Unproven("", "- so it is", "this is not in the form of a quote"),
        Unproven(
            "job 7 line 4",
            "something else",
            "job 7 has on these lines",
            tuple(f"{number}: line number {number}" for number in range(2, 7)),
        ),
        Unproven("job 7 line 2", "line number 7", "it stands on lines 7, 11 of job 7, not there"),
        Unproven("job 7 line 90", "x", "job 7 has 11 lines"),
        Unproven("file src/a.py line 1", "x", "file src/a.py could not be read: 404 Not Found"),
    )


def test_a_quote_that_differs_in_its_blanks_only_is_told_so() -> None:
    lines = ["1", "E   assert  total == 7", "E    +  where 8 = sum([3, 5])", "4", "5"]
    held = Held({LOG: "\n".join(lines)})
    one = at(2, "E assert total == 7")
    two = at(2, "E assert total == 7\nE + where 8 = sum([3, 5])", last=3)
    told = find_unproven(Finding(evidence=(one, two)), held)
    assert [each.reason for each in told] == ["only its blanks differ from job 7"] * 2
    assert told[0].nearby_lines == ("2: E   assert  total == 7",)
    assert told[1].nearby_lines == ("2: E   assert  total == 7", f"3: {lines[2]}")


def test_a_quote_whose_blanks_and_place_differ_is_told_both() -> None:
    held = Held({LOG: "\n".join([*"123456789", "E   assert  total == 7", "x  =  1"])})
    far, short = at(1, "E assert total == 7"), at(11, "x = 1")
    told = find_unproven(Finding(evidence=(far, short)), held)
    assert told[0].reason == "it stands on line 10 of job 7, not there, and its blanks differ"
    assert told[1].reason == "only its blanks differ from job 7"
    assert [each.nearby_lines for each in told] == [
        ("10: E   assert  total == 7",),
        ("11: x  =  1",),
    ]


def test_the_blanks_of_a_test_s_message_are_told_too() -> None:
    test = ReportedTest("tests.test_app.test_sum")
    held = Held({test: "first\nassert  total  ==  7"})
    (told,) = find_unproven(Finding(evidence=(at(0, "assert total == 7", test),)), held)
    assert told.reason.startswith("only its blanks differ from test")
    assert told.nearby_lines == ("2: assert  total  ==  7",)


def test_a_verdict_none_of_whose_quotes_is_proven_is_not_kept() -> None:
    lost = prove_finding(Finding(Verdict.FLAKY, evidence=(at(1, "invented"),)), Held())
    assert (lost.verdict, lost.unproven) == (Verdict.UNKNOWN, 1)
    assert "said “flaky”, but" in lost.doubt
    kept = (at(1, "invented"), at(1, "error: no such file"))
    held = Held({LOG: "error: no such file"})
    assert prove_finding(Finding(Verdict.FLAKY, evidence=kept), held).verdict is Verdict.FLAKY
    assert (
        prove_finding(Finding(Verdict.ABSTAIN, evidence=kept[:1]), held).verdict is Verdict.ABSTAIN
    )


def test_quotes_in_a_reply_are_proven_and_the_others_are_only_placed() -> None:
    held = Held({LOG: "error: no such file"})
    text = "It is there:\n\n- job 7 line 1: error: no such file\n- job 7 line 1: made up\n\nSo."
    assert prove_reply(text, held) == (
        "It is there:\n",
        Evidence(LOG, 1, "error: no such file", "https://gitlab.example.com/job/7#L1", 1),
        Unproven(
            "job 7 line 1", "made up", "job 7 has on these lines", ("1: error: no such file",)
        ),
        "\nSo.",
    )


@pytest.mark.parametrize(
    ("place", "line", "size"), [(ReportedTest("t"), 0, 30_000), (LOG, 1, 100_000)]
)
def test_a_long_quote_that_is_not_there_takes_linear_time(
    place: Place, line: int, size: int
) -> None:
    def prove(text: str) -> None:
        lines = text.split("\n")
        quote = "\n".join(["error: no such door", *lines[: len(lines) // 2]])
        assert find_unproven(Finding(evidence=(at(line, quote, place),)), Held({place: text}))

    assert takes_linear_time(prove, "an error: no such file\n", size)


class Counted(list[str]):
    """Lines that count how many of them were looked up by their number."""

    looked_up = 0

    def __getitem__(self, key: Any) -> Any:
        self.looked_up += 1
        return super().__getitem__(key)


def test_only_so_many_lines_are_compared_without_their_blanks() -> None:
    lines = Counted(["it has the word error in it"] * 10_000)
    quote = at(1, "an error of no kind")

    class Many(Held):
        def read_lines(self, place: Place) -> Counted:
            return lines

    assert find_unproven(Finding(evidence=(quote,)), Many({}))
    assert lines.looked_up < 2 * MAX_LIKELY


# ------------------------------------------------------------------------- seeded fabrications

_ALIKE = str.maketrans("aeopcxyiAEOPCX0", "аеорсхуіАЕОРСХО")
WORDS = ("cannot", "find", "module", "assertion", "failed", "expected", "timeout", "at", "src")


def log_of(rng: Random, lines: int = 200) -> list[str]:
    """Lines that differ from each other in every part of some length."""
    return [
        "  " * rng.randint(0, 2)
        + " ".join(
            f"{rng.choice(WORDS)}{rng.randint(1000, 9999)}" for _ in range(rng.randint(3, 8))
        )
        for _ in range(lines)
    ]


def fabricated(rng: Random, quote: Evidence, lines: list[str]) -> Evidence:
    """`quote`, no longer true, in one of the ways in which models are wrong."""
    text, number = quote.text, quote.line
    inside = rng.randrange(1, len(text) - 1)
    far = rng.choice([each for each in range(1, len(lines) + 1) if abs(each - number) > 12])
    other = lines[far - 1].strip()
    ways = (
        (quote.place, number, text[:inside] + "~" + text[inside + 1 :]),
        (quote.place, number, text[:inside] + text[inside].swapcase() + "~" + text[inside + 1 :]),
        (quote.place, number, f"{text} {other}"),
        (quote.place, number, f"{text}\n{other}"),
        (quote.place, number, text.translate(_ALIKE)),
        (quote.place, number, text.replace(" ", "  ", 1)),
        (quote.place, number, text.replace(" ", "\u00a0", 1)),
        (quote.place, number, f"{text[:inside]}\u200b{text[inside:]}"),
        (quote.place, number, f"{text[:inside]} … {text[inside:]}"),
        (JobLog(8), number, text),
        (RepoFile("src/a.py"), number, text),
    )
    place, line, changed = rng.choice(ways)
    return at(line, changed, place)


@pytest.mark.parametrize("seed", range(20))
def test_true_quotes_are_all_accepted_and_fabrications_all_rejected(seed: int) -> None:
    rng = Random(seed)
    lines, others = log_of(rng), log_of(rng)
    held = Held({LOG: "\n".join(lines), JobLog(8): "\n".join(others), FILE: "\n".join(others)})
    for _ in range(60):
        number, size = rng.randint(1, len(lines) - 5), rng.choice((1, 1, 1, 2, 5))
        span = [line.strip() for line in lines[number - 1 : number - 1 + size]]
        true = at(number, "\n".join(span), last=number + size - 1)
        written = f"## Evidence\n- {true.where}: " + "\n  ".join(span)
        assert len(prove_finding(parse_finding(written), held).evidence) == 1, written
        false = fabricated(rng, at(number, span[0]), lines)
        assert prove_finding(Finding(evidence=(false,)), held).evidence == (), false
