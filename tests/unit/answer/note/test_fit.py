"""What a reader sees of a finding: eight lines at most, and in them whole sentences."""

import random
import re
from dataclasses import replace

import pytest

from tests.unit.answer.note.test_note import DONE, FOOTER, JOB, MARKER, SUBJECT, written
from tests.unit.safety.test_neutralise import HOSTS
from worker.answer.note import note
from worker.answer.note.facts import write_diff_links
from worker.answer.note.fit import LONGEST
from worker.answer.note.layout import Layout
from worker.answer.parse import list_named_failures
from worker.answer.suggestions import Offers
from worker.safety.lint import MAX_LINES, count_visible_lines, find_faults
from worker.safety.sentences import split_sentences
from worker.verdict.finding import Evidence, FailedJobs, Finding, JobLog, RepoFile
from worker.verdict.jobs import FailingJob
from worker.verdict.verdict import HEADLINES, Verdict

WORDS = (
    *("the", "job", "fails", "because", "pytest", "cannot", "import", "this", "change", "moved"),
    *("and", "is", "where", "expects", "as", "of", "so", "`shop.vat`", "0.19", "0.07", "8.1.8"),
    *("`shop/totals.py:41`", "`test_vat`", "(2 of 213 tests)", "`value.subarray(offset)`"),
    "[job 4711](https://gitlab.example.com/group/shop/-/jobs/4711)",
)


def shown_of(body: str) -> str:
    """What stands before the fold and the small print."""
    return body.split("\n<details>")[0].split("\n<sub>")[0]


def _sentence(chance: random.Random, longest: int) -> str:
    words: list[str] = []
    while len(" ".join(words)) < chance.randint(20, longest - 40):
        words.append(chance.choice(WORDS))
    text = " ".join(words)
    return text[:1].upper() + text[1:] + "."


def _text(chance: random.Random, most: int) -> str:
    return " ".join(_sentence(chance, 200) for _ in range(chance.randint(1, most)))


def _quote(chance: random.Random, number: int) -> Evidence:
    lines = [f"E   line {number}.{at} " + "x" * chance.randint(0, 150) for at in range(5)]
    count = chance.choice((1, 1, 1, 2, 5))
    text = "\n".join(lines[:count])
    return Evidence(JobLog(4711), number, text, f"{JOB}#L{number}", number + count - 1)


def make_finding(chance: random.Random) -> Finding:
    count = chance.randint(1, 12) if chance.random() < 0.9 else 0
    tests = ("tests/test_totals.py::test_vat",)
    return Finding(
        verdict=chance.choice(tuple(Verdict)),
        what_failed="`unit-tests`: `test_vat`",
        cause=_text(chance, 5),
        evidence=tuple(_quote(chance, number) for number in range(chance.randint(0, 5))),
        to_do=_text(chance, 4),
        details=_text(chance, 3) if chance.random() < 0.5 else "",
        missing_evidence=_text(chance, 2),
        next_time=_text(chance, 1),
        failed_jobs=tuple(
            FailedJobs((FailingJob(40 + n, f"unit-tests: [3.{n}]"),), tests) for n in range(count)
        ),
    )


def plain(text: str) -> str:
    return re.sub(r"[\\`]|\]\([^)]*\)|\[", "", text)


def _main_sentences(finding: Finding) -> tuple[str, str]:
    if finding.verdict is Verdict.ABSTAIN:
        return split_sentences(finding.missing_evidence)[0], split_sentences(finding.next_time)[0]
    return split_sentences(finding.cause)[0], split_sentences(finding.to_do)[0]


@pytest.mark.slow
def test_of_any_finding_eight_lines_are_shown_with_the_first_sentences_whole(
    attack_inputs: int,
) -> None:
    chance = random.Random(13)
    for _ in range(attack_inputs // 4):
        finding = make_finding(chance)
        body = note.write_finding(MARKER, Layout(finding, SUBJECT, DONE, HOSTS), FOOTER)
        shown = shown_of(body)
        assert count_visible_lines(body) <= MAX_LINES
        for sentence in _main_sentences(finding):
            assert plain(sentence) in plain(shown)
        assert ("- [job 4711" in shown) == bool(finding.evidence)
        assert all(line.count("`") % 2 == 0 for line in shown.replace("```", "").split("\n"))
        assert all("…" not in line or line.startswith("- [") for line in shown.split("\n"))


CAUSE = "`VAT` is 0.07 now, and `test_vat` expects 0.19."
TO_DO = "Put the rate back to 0.19."
FULL = Finding(
    verdict=Verdict.CHANGE,
    what_failed="`unit-tests` (job 4711): `tests/test_totals.py::test_vat`",
    cause=CAUSE,
    evidence=(Evidence(JobLog(4711), 5, "E   assert 107 == 119", f"{JOB}#L5", 5),),
    to_do=TO_DO,
)
TWO_LINES = Evidence(JobLog(4711), 7, "E   assert 1\nE    + where 1", f"{JOB}#L7", 8)
LONG = " ".join(["It goes on and on about the rate of 0.19 in `shop/totals.py`"] * 3) + "."

KINDS = [
    ("a number in brackets", {"cause": f"{'The totals differ in many tests ' * 3}(2 of 213)."},
     "(2 of 213)."),
    ("a span of code at the end", {"cause": f"{'It now keeps the pending bytes ' * 3}with "
     "`value.subarray(offset)`."}, "`value.subarray(offset)`."),
    ("a second sentence of advice", {"to_do": f"{TO_DO} The job will still be red then."},
     "The job will still be red then."),
    ("a long second sentence of the cause", {"cause": f"{CAUSE} {LONG}"}, "`shop/totals.py`."),
    ("a colon before a block", {"to_do": "Add this line:\n```python\nVAT = 0.19\n```"},
     "Add this line (in the details)."),
    ("only a block", {"to_do": "```python\nVAT = 0.19\n```"}, "See the details below."),
    ("a quote of two lines", {"evidence": (TWO_LINES,)}, "where 1"),
    ("the same line quoted twice", {"evidence": (*FULL.evidence, *FULL.evidence)}, CAUSE),
    ("many jobs", {"failed_jobs": tuple(FailedJobs((FailingJob(0, name),))
                                        for name in "abcdefghijklm" * 4), "cause": LONG * 2},
     " more"),
    ("a list of steps", {"to_do": "1. Revert `a`.\n2. Run `b` again."},
     "Revert `a`. Run `b` again."),
    ("no details", {"details": ""}, TO_DO),
    ("a version", {"cause": "click 8.1.8 became 8.2.0. It has no `f.g` any more."},
     "click 8.1.8 became 8.2.0. It has no `f.g` any more."),
    ("an abbreviation", {"cause": "Some paths, e.g. `a.b`, are gone."},
     "Some paths, e.g. `a.b`, are gone."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fields", "kept"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_what_was_lost_once_stands_whole(kind: str, fields: dict[str, object], kept: str) -> None:
    body = written(replace(FULL, **fields))  # type: ignore[arg-type]
    assert kept in shown_of(body)
    assert count_visible_lines(body) <= MAX_LINES


def test_a_quote_gives_way_before_a_sentence() -> None:
    many = tuple(replace(TWO_LINES, line=n, text=f"E   {n}{LONG}\nE   + {n}") for n in range(1, 4))
    shown = shown_of(written(replace(FULL, evidence=many, cause=f"{CAUSE} {LONG}")))
    assert LONG in shown
    assert "+ 1" not in shown
    assert shown.count("[job 4711") >= 1


def test_sentences_of_chinese_are_shown_whole_and_a_monstrous_one_by_its_clauses() -> None:
    short = "容器在五秒之内没有启动，因为新的迁移脚本更慢。" * 2
    clause = "容器没有在五秒之内启动所以数据库连接被拒绝，"
    for cause, end in ((short + "主分支没有这个脚本。" * 40, "。"), (clause * 40, "拒绝 …")):
        found = Finding(Verdict.CHANGE, what_failed="`t` (1)", cause=cause, to_do="改成十秒。")
        body = note.write_finding(MARKER, Layout(found, SUBJECT, DONE, frozenset()), FOOTER)
        (line,) = [each for each in body.split("\n") if each.startswith("**Cause:**")]
        assert line.endswith(end)
        assert "。 " not in line


def test_a_monstrous_sentence_is_shown_by_its_clauses() -> None:
    monster = "The runner met the limit, " * 60 + "and then it stopped."
    shown = shown_of(written(replace(FULL, cause=monster)))
    (line,) = [each for each in shown.split("\n") if each.startswith("**Cause:")]
    assert line.endswith("The runner met the limit …")
    assert len(line) <= LONGEST[0] + 20


@pytest.mark.parametrize(
    ("verdict", "advice", "headline"),
    [
        (Verdict.FLAKY, "Fix the clock. A retry does not help.", ", and a retry does not help"),
        (Verdict.FLAKY, "Retry the job.", ""),
        (Verdict.CHANGE, "Fix the clock. A retry does not help.", ""),
    ],
)
def test_a_failure_by_chance_or_date_says_in_its_headline_where_a_retry_does_not_help(
    verdict: Verdict, advice: str, headline: str
) -> None:
    shown = shown_of(written(replace(FULL, verdict=verdict, to_do=advice)))
    assert f"**{HEADLINES[verdict]}{headline}**" in shown


ADVICES = [
    ("One. Two.", ""),
    (
        f"Put `a` back. {LONG} {LONG} {LONG} {LONG} {LONG}\n\n- then this;\n- then that.",
        "then that.",
    ),
    (f"1. Put `a` back.\n2. {LONG}\n3. {LONG}\n4. {LONG}\n5. {LONG}\n6. Rest.", "6. Rest."),
    ("Add this line:\n```python\nVAT = 0.19\n```\nThen rest.", "VAT = 0.19"),
]


@pytest.mark.parametrize(("advice", "folded"), ADVICES)
def test_what_to_do_is_said_once(advice: str, folded: str) -> None:
    full = replace(FULL, to_do=advice, details="More.", evidence=FULL.evidence * 3)
    body = written(replace(full, cause=f"{CAUSE} {LONG} {LONG}"))
    shown = split_sentences(advice.partition("```")[0])[0].removesuffix(":")
    assert body.count(shown) == 1
    assert shown in shown_of(body)
    assert folded in body.partition("<details>")[2]
    assert "**Further details**" in body


def test_of_a_long_list_as_many_whole_tests_are_named_as_fit() -> None:
    names = tuple(f"tests/test_totals.py::test_{number}" for number in range(60))
    failed = FailedJobs((FailingJob(500002, "unit"),), names)
    shown = shown_of(written(replace(FULL, failed_jobs=(failed,))))
    (line,) = (each for each in shown.splitlines() if "**Failed:**" in each)
    count = 60 - int(line.rpartition(" and ")[2].split()[0])
    assert count >= 5
    listed = ", ".join(f"`{name}`" for name in names[:count])
    assert line.endswith(f"`unit` (500002): {listed} and {60 - count} more tests")


def test_what_failed_stands_whole_where_it_takes_one_line() -> None:
    failed = 'the test "production with a tenant" in `test/resolve.test.js` (1 of 407).'
    full = replace(FULL, what_failed=f"`unit` (500002): {failed}", cause=f"{CAUSE} {LONG} {LONG}")
    assert failed in shown_of(written(full))


def test_what_failed_fills_the_line_that_its_job_begins() -> None:
    failed = "unit (500004): timed out after 5 minutes in `tests/test_pool.py::test_draining`, new"
    full = replace(FULL, what_failed=f"{failed} {LONG}", cause=f"{CAUSE} {LONG} {LONG}")
    shown = shown_of(written(replace(full, to_do=f"{LONG} {LONG}")))
    assert "**Failed:** unit (500004): timed out after 5 minutes in `tests/test_pool.py" in shown


def test_code_that_a_folded_sentence_announces_is_not_tied_to_the_first_one() -> None:
    code = "Bound the count by the time that has really passed:\n```python\nx = 1\n```"
    folding = {"cause": f"{CAUSE} {LONG} {LONG}", "to_do": f"Retry the job. {LONG} {code}"}
    shown = shown_of(written(replace(FULL, **folding)))  # type: ignore[arg-type]
    assert "**What to do:** Retry the job. It goes on" in shown
    assert "(code" not in shown.partition("It goes on")[0]


def test_advice_that_only_says_retry_goes_on_before_the_cause_does() -> None:
    again, why = "Retry the job: it may need more than one try.", "Which test fails is chance."
    lasting = "To mend it, set `async: false` in `test/tariffs_test.exs` line 2."
    cause = f"{LONG} {why} {LONG}"
    shown = shown_of(written(replace(FULL, cause=cause, to_do=f"{again} {lasting} {LONG}")))
    assert f"**What to do:** {again} {lasting}" in shown
    shown = shown_of(written(replace(FULL, cause=cause, to_do=f"{LONG} {lasting}")))
    assert why in shown


def test_both_sections_have_two_sentences_before_one_has_three() -> None:
    short = (
        "It is read again for each of the rows of the table, and so it takes long for a long one."
    )
    sentences = [f"Sentence {number}: {short}" for number in range(6)]
    said = {"cause": " ".join(sentences[:3]), "to_do": " ".join(sentences[3:])}
    finding = replace(FULL, evidence=(), **said)  # type: ignore[arg-type]
    shown = shown_of(written(finding))
    assert [number for number in range(6) if f"Sentence {number}" in shown] == [0, 1, 3, 4]


def test_what_failed_gives_way_to_a_quote_that_would_be_cut_short() -> None:
    said = (
        "remote: Authentication by CI/CD job token not allowed from embedded/sonde to sonde/data."
    )
    quote = replace(FULL.evidence[0], text=said)
    job = FailingJob(500005, "build", family_size=2, excerpt="7: $ git submodule update")
    failed = FailedJobs((job, job), ("vendor/calibration-data", "vendor/board-data"))
    full = replace(FULL, failed_jobs=(failed,), evidence=(quote,), cause=LONG, to_do=LONG)
    shown = shown_of(written(full))
    assert "**Failed:** `build` (2 of 2 variants)" in shown
    assert f"`{said}`\n" in f"{shown}\n"


def test_two_failed_jobs_are_named_however_little_room_there_is() -> None:
    build, smoke = FailingJob(500003, "build"), FailingJob(500004, "smoke")
    failed = FailedJobs((build,), ("a" * 80,)), FailedJobs((smoke,))
    shown = shown_of(written(replace(FULL, failed_jobs=failed, cause=LONG, to_do=LONG)))
    assert "`build` (500003)" in shown
    assert "`smoke` (500004)" in shown


@pytest.mark.parametrize("title", ["Cause", "What to do"])
def test_a_section_is_folded_from_where_it_was_left(title: str) -> None:
    text = f"{CAUSE} {LONG} {LONG} The end of it is a bug of its own."
    body = written(replace(FULL, **{"cause" if title == "Cause" else "to_do": f"{text} {text}"}))  # type: ignore[arg-type]
    shown, _, folded = body.partition("<details>")
    assert CAUSE in shown
    assert f"**{title}**\n\n" in folded
    assert not folded.split(f"**{title}**\n\n")[1].startswith(CAUSE)
    assert "The end of it is a bug of its own." in folded


OTHER = (
    "A second, separate failure in the same job: the download of the holidays got HTTP 503 from "
    "`mirror.corp.example` four times; that is the server, not this change."
)
POINTER = "A second, separate failure in the same job: the download of the holidays got HTTP 503 …"


def test_a_second_cause_is_shown_or_pointed_to() -> None:
    text = "Argument isn't numeric in line 10 of it " * 3
    long = Evidence(RepoFile("surcharge.py"), 14, text, f"{JOB}#L14", 14)
    curl = "curl: (22) The requested URL returned error: 503"
    short = Evidence(JobLog(4711), 14, curl, f"{JOB}#L14", 14)
    full = replace(FULL, evidence=(long, short), to_do=TO_DO)
    both = shown_of(written(replace(full, cause=f"{'The dot is not escaped, ' * 8}so. {OTHER}")))
    assert OTHER in both
    assert short.text in both
    # A quote comes before a second sentence, and why something else failed before the rest of it.
    other = shown_of(written(replace(full, cause=f"{'The dot is not escaped, ' * 12}so. {OTHER}")))
    assert f"so. {POINTER}\n" in other
    assert short.text in other
    room = shown_of(written(replace(full, evidence=(long,), cause=f"It is so. {OTHER}")))
    assert f"It is so. {OTHER}" in room
    assert "Argument isn't numeric" in room
    endless = f"{'The dot is not escaped, ' * 12}so. {OTHER[:-1]}{', and so it goes on' * 12}."
    one = shown_of(written(replace(full, cause=endless)))
    assert OTHER[:-1] not in one
    assert f"so. {POINTER}\n" in one
    assert "- [" in one


def test_a_quote_is_shown_before_what_to_do_about_a_second_cause() -> None:
    said = "The change passes `ttl = 60` to the module `dns`, which has no variable of this name."
    both = {
        "cause": f"{said} {OTHER}",
        "to_do": "Declare the variable in `modules/dns/main.tf` and use it in its line 10,"
        " or drop line 29 of `main.tf` and of `prod.tf`."
        " Have whoever keeps the mirror look at it, and retry `unit-tests` once that is done.",
    }
    full = replace(FULL, what_failed=f"`validate` (4710), `unit-tests` (4711): {'a' * 60}")
    shown = shown_of(written(replace(full, **both)))  # type: ignore[arg-type]
    assert both["cause"] in shown
    assert both["to_do"].split(" Have ")[0] in shown
    assert "- [" in shown
    endless = both | {"to_do": f"{TO_DO} {LONG * 4}"}
    shown = shown_of(written(replace(full, **endless)))  # type: ignore[arg-type]
    assert both["cause"] in shown
    assert "- [" in shown


def test_a_second_cause_that_does_not_fit_ends_with_a_clause_if_one_is_long_enough() -> None:
    endless = "; the server says so too" * 40
    for clause, shown in (
        ("`lint` fails for its own reason, since the type of `rate` is a string now", True),
        ("`lint` fails for its own reason, and that", False),
    ):
        text = f"{'The dot is not escaped, ' * 12}so. {clause}{endless}."
        cause = shown_of(written(replace(FULL, cause=text, to_do=LONG)))
        assert f"so. {clause} …\n" in cause if shown else f"{clause} …" not in cause


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        (OTHER, True),
        ("Separately, `test_b` fails because the port is taken.", True),
        ("The other failing test, `test_b`, is flaky.", True),
        ("`lint` fails for a reason of its own.", False),
        ("`lint` fails for its own reason.", True),
        ("`mypy` has another cause: the stubs are gone.", True),
        ("So each quote raises the prices of all later ones.", False),
        ("There is no second failure.", False),
        ("The other 406 tests passed.", False),
        ("The other error, `make: Error 2`, is not a cause.", True),
        ("It isn't another bug.", False),
        ("The other errors in `main.c` follow from it.", False),
        ("All other failures are consequences of the missing header.", False),
        ("The other failing tests have the same cause.", False),
        ("The second error disappears with it.", False),
        ("Another failure comes from the network: the mirror answered 503.", True),
        ("A second failure is due to the mirror, which answered 503.", True),
        ("The change was meant for `redact`; `union` also cannot see that.", False),
        ("Another run of the job failed with the same error.", False),
        ("Before the change the same bug did no harm.", False),
    ],
)
def test_a_sentence_names_another_failure_or_does_not(sentence: str, names: bool) -> None:
    assert [*list_named_failures(f"{CAUSE} {sentence}")] == ([2] if names else [])
    assert list_named_failures(sentence) == {}


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("Return new rows.\n```python\nx = 1\n```", "Return new rows. Code is in the details."),
        (
            "Return new rows. Keep the cache.\n```python\nx = 1\n```",
            "Return new rows. Keep the cache. Code is in the details.",
        ),
        ("Add this:\n```python\nx = 1\n```", "Add this (in the details)."),
        (
            "Return new rows.\n```python\nx = 1\n```\nThen wait.",
            "Return new rows. Code is in the details.",
        ),
        (
            "Return new rows. The new line of `rows.py`:\n```python\nx = 1\n```",
            "Return new rows. Code is in the details.",
        ),
        ("Return new rows", "Return new rows"),
        ("Return new rows:", "Return new rows."),
    ],
)
def test_where_the_fix_is_folded_the_advice_says_so(advice: str, shown: str) -> None:
    lines = shown_of(written(replace(FULL, to_do=advice))).split("\n")
    assert [line for line in lines if line][-1] == f"**What to do:** {shown}"


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("Put the old comparison back:", "Put the old comparison back."),
        ("Put `<` back", "Put `<` back."),
        ("Put it *back.*", "Put it *back.*"),
        ("Do both:\n- put it back\n- wait", "Do both: put it back; wait."),
    ],
)
def test_advice_is_a_sentence_before_the_link_to_the_fix(advice: str, shown: str) -> None:
    found = replace(FULL, to_do=advice)
    made = note.write_finding(
        MARKER, Layout(found, SUBJECT, DONE, HOSTS, Offers((("app.py:3", JOB),))), FOOTER
    )
    assert f"**What to do:** {shown} Apply on the diff: [`app.py:3`]({JOB})" in shown_of(made)


SUMMARY = "<summary>Details{}</summary>"


@pytest.mark.parametrize(
    ("advice", "details", "said"),
    [
        (f"{TO_DO} {LONG} {LONG} {LONG} A retry does not help.", "", ", with more of what to do"),
        (f"{TO_DO} {LONG} {LONG} {LONG} Or:\n```\nx = 1\n```", "",
         ", with more of what to do and code"),
        ("Put it back:\n```\nx = 1\n```", "", ", with code"),
        ("Put it back with the block below.", "```\nx = 1\n```", ", with code"),
        ("Put it back.", "```\nx = 1\n```", ""),
        ("Put it back. A retry does not help.", "More.", ""),
    ],
)  # fmt: skip
def test_the_fold_says_what_of_the_advice_is_in_it(advice: str, details: str, said: str) -> None:
    found = replace(FULL, to_do=advice, details=details, evidence=FULL.evidence * 2)
    body = note.write_finding(MARKER, Layout(found, SUBJECT, DONE, HOSTS), FOOTER)
    assert SUMMARY.format(said) in body
    assert find_faults(body, HOSTS) == []


def test_a_fix_of_which_a_part_is_on_the_diff_says_so() -> None:
    advice = "List it in `module.mk` and expect 7. The new line:\n```make\n    slice4.c\n```"
    found = replace(FULL, to_do=advice)
    made = note.write_finding(
        MARKER, Layout(found, SUBJECT, DONE, HOSTS, Offers((("app.py:3", JOB),))), FOOTER
    )
    where = f"Only a part of the fix is [on the diff]({JOB})."
    assert f"expect 7. Code is in the details. {where}" in shown_of(made)


@pytest.mark.parametrize(
    ("folded", "qualified"),
    [
        ("Do not drop the rows.", True),
        ("Check the number first; a retry will not help.", True),
        ("None of it is flaky, so a retry will not help.", False),
        ("Both jobs need their fix.", False),
        ("", False),
    ],
)
def test_only_folded_advice_that_limits_the_fix_is_to_be_read_first(
    folded: str, qualified: bool
) -> None:
    line = write_diff_links(Offers((("app.py:3", JOB),)), folded)
    assert line.startswith("See the details, then apply" if qualified else "Apply")


def test_a_change_is_not_offered_without_the_advice_that_limits_it() -> None:
    cause, advice = (
        "It fails because " + "the zone is missing, " * 8,
        "Drop it, and handle the zone.",
    )
    limit = "Decide first whether a country without a zone shall raise an error, as in the fix."
    offers = Offers((("app.py:3", JOB),))
    quotes = tuple(Evidence(JobLog(n), n, f"error {n}", JOB, n) for n in range(1, 4))
    for count, long in ((1, False), (6, True)):
        found = Finding(
            verdict=Verdict.CHANGE,
            what_failed="`unit` (1)",
            cause=" ".join([f"{cause.rstrip(', ')}."] * count),
            evidence=quotes,
            to_do=f"{advice} {limit}" + f" {limit}" * 4 * long,
        )
        shown = shown_of(
            note.write_finding(MARKER, Layout(found, SUBJECT, DONE, HOSTS, offers), FOOTER)
        )
        applied = "See the details, then apply" if long else "Apply"
        assert f"{applied} on the diff: [`app.py:3`]({JOB})" in shown
        assert long or limit in shown
