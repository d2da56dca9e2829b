"""Which parts of a finding give way to others where not all of them fit."""

from dataclasses import replace

import pytest

from tests.unit.answer.note.test_fit import CAUSE, FULL, LONG, SUMMARY, TO_DO, shown_of
from tests.unit.answer.note.test_note import DONE, FOOTER, JOB, MARKER, SUBJECT, written
from tests.unit.safety.test_neutralise import HOSTS
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.verdict.finding import Evidence, Finding, JobLog
from worker.verdict.verdict import Verdict


def test_an_abstention_says_what_to_do_now() -> None:
    advice = "Run it with `-L`. Then look at line 9."
    found = Finding(Verdict.ABSTAIN, missing_evidence="The log.", next_time="x.", to_do=advice)
    body = note.write_finding(MARKER, Layout(found, SUBJECT, DONE, HOSTS), FOOTER)
    assert "**What to do:** Run it with `-L`.\n" in body
    assert SUMMARY.format(", with more of what to do") in body


def test_the_fold_says_that_more_of_the_cause_is_in_it() -> None:
    found = replace(FULL, cause=f"{CAUSE} {LONG} {LONG} {LONG} {LONG}")
    assert SUMMARY.format(", with more of the cause") in written(found)
    both = replace(found, to_do=f"{TO_DO} {LONG} {LONG} {LONG} {LONG}")
    assert SUMMARY.format(", with more of the cause and more of what to do") in written(both)


@pytest.mark.parametrize(
    ("what_failed", "cause", "quote", "shown"),
    [
        (
            "`test` (500016): `SessionExpirySpec`, `should expire an idle session after its ttl`",
            "`SessionExpirySpec` waits at most 300 ms (line 13) for a 250 ms ttl plus a 20 ms "
            "sweep, so a late sweeper thread fails it. On main it failed alike in job 500006, and "
            "job 500007 passed on that commit; this change touches neither the test nor `core`.",
            "The code passed to eventually never returned normally. Attempted 18 times over 300.49 "
            "milliseconds. Last failure message: true was not equal to false.",
            "`The code passed to eventually never returned normally. Attempted 18 times` …",
        ),
        (
            "e2e 1/4 (500024): 8 tests; e2e 2/4 (500025): 3; e2e 3/4 (500026): 4; different tests",
            "`server/app.ts:17` limits all of `/api`, and `rateLimit.ts:5` lowers the limit from "
            "600 to 60 requests a minute. All workers share one address, so the API answers 429 "
            "and the pages never show what the tests wait for.",
            '[WebServer] [2026-11-26T13:39:40.568Z] ::ffff:10.0.0.1 "GET /api/catalog/facets" 429 '
            "38 - 14.071 ms",
            '… `::ffff:10.0.0.1 "GET /api/catalog/facets" 429 38 - 14.071 ms`',
        ),
    ],
)
def test_a_second_sentence_of_the_cause_comes_before_the_rest_of_a_quote(
    what_failed: str, cause: str, quote: str, shown: str
) -> None:
    advice = (
        "Skip the limiter for the tests' server (NODE_ENV=e2e) in `server/config/rateLimit.ts:8`, "
        "or raise `max`, if 60 a minute is too low for users too. The rest can wait."
    )
    quotes = (Evidence(JobLog(500016), 3952, quote, f"{JOB}#L3952", 3952),)
    body = written(
        replace(FULL, what_failed=what_failed, cause=cause, evidence=quotes, to_do=advice)
    )
    assert cause in shown_of(body)
    assert shown in shown_of(body)
    assert quote in body.partition("<details>")[2]
    names = [each.split(" (")[0].strip("`") for each in what_failed.split("; ")]
    assert all(name in shown_of(body) for name in names[:3])


@pytest.mark.parametrize(
    "changes",
    [
        {"cause": "It goes on, " * 29 + "and ends.", "to_do": "Put it back, " * 26 + "and wait."},
        {"cause": "Why it fails. " * 40, "to_do": "What to do. " * 40},
        {"doubt": "The model said “flaky”, but quoted nothing that proves it."},
        {"what_failed": ", ".join(f"`job-{number}` (47{number})" for number in range(60))},
        {"verdict": Verdict.ABSTAIN, "missing_evidence": "The log is gone. " * 30},
    ],
)
def test_one_quote_is_visible_whatever_else_is_said(changes: dict[str, object]) -> None:
    long = replace(FULL.evidence[0], text="E   AssertionError: " + "a word and " * 30)
    found = replace(FULL, evidence=(long,), cause=LONG, to_do=LONG)
    shown = shown_of(written(replace(found, **changes)))  # type: ignore[arg-type]
    assert "- [job 4711, line 5]" in shown
    assert count_visible_lines(shown) <= MAX_LINES
