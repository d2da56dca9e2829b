"""Which quotes a reader sees, and how much of them."""

from dataclasses import replace

import pytest

from tests.unit.answer.note.test_fit import CAUSE, FULL, LONG, TO_DO, shown_of
from tests.unit.answer.note.test_note import JOB, written
from worker.answer.note.quotes import announces_next, choose_line, cut_line, find_words, sort_quotes
from worker.verdict.finding import Evidence, JobLog, RepoFile, ReportedTest
from worker.verdict.verdict import Ruling


def of_job(job_id: int, line: int, text: str) -> Evidence:
    return Evidence(JobLog(job_id), line, text, f"{JOB[:-4]}{job_id}#L{line}", line)


SURCHARGE = Evidence(
    JobLog(4711),
    963,
    '>       assert monthly([{"lane": "SOUTH"}], fuel=0)["total"] == "7.00"\n'
    "E       AssertionError: assert '7.70' == '7.00'",
    f"{JOB}#L963",
    964,
)
CULPRIT = Evidence(RepoFile("surcharge.py"), 14, 'row["price"] += add', f"{JOB}#L14", 14)
SINKS = Evidence(
    JobLog(4711), 482, "  sinks: [\n+   {\n+     kind: 'stdout'\n+   },", f"{JOB}#L482", 485
)
BRACKETS = Evidence(JobLog(4711), 7, "[\n{\n},", f"{JOB}#L7", 9)
BIG = " ".join(["The cache hands every caller the same list of rows and prices"] * 3) + "."
ADVICE = f"{BIG[:-1]}, so put the rate of 0.19 back where it was before."


def _shown_quotes(*evidence: Evidence, cause: str = BIG, to_do: str = ADVICE) -> list[str]:
    """The first lines of the quotes, where both sections leave room for one line."""
    full = replace(FULL, evidence=evidence, cause=cause, to_do=to_do)
    return [line for line in shown_of(written(full)).split("\n") if line.startswith("- [")]


TELLING = f"- [job 4711, line 964]({JOB}#L964): `{SURCHARGE.text.splitlines()[1]}` (1 of 2 lines)"


def test_where_one_quote_fits_it_is_the_first_of_what_failed() -> None:
    assert _shown_quotes(SURCHARGE, CULPRIT) == _shown_quotes(CULPRIT, SURCHARGE) == [TELLING]
    culprit = f'- [`surcharge.py`, line 14]({JOB}#L14): `row["price"] += add`'
    assert _shown_quotes(CULPRIT) == [culprit]


@pytest.mark.parametrize(
    "counts", ["35 examples, 1 failure", "+ Received  + 4", "Tests: 1 failed, 87 passed, 88 total"]
)
def test_a_line_that_only_counts_is_shown_if_no_other_stands(counts: str) -> None:
    got, count = of_job(4711, 157, 'got: ["Autumn"]'), of_job(4711, 165, counts)
    other = of_job(4712, 9, counts.replace("1", "2"))
    for quotes in ((got, count), (count, got), (got, other), (got, count, other)):
        (shown,) = _shown_quotes(*quotes, cause=CAUSE, to_do=TO_DO)
        assert '`got: ["Autumn"]`' in shown
    assert counts in written(replace(FULL, evidence=(got, count)))
    (shown,) = _shown_quotes(count, cause=CAUSE, to_do=TO_DO)
    assert counts in shown


def test_a_quote_of_a_job_that_passed_is_shown_only_if_there_is_no_other() -> None:
    passed, failed = of_job(4700, 14, "via runner-01"), of_job(4711, 14, "via runner-03")
    ruled = (Ruling("build", (4711,), None, (), ()),)
    for quotes, first in (
        ((passed, failed), failed),
        ((CULPRIT, passed, failed), failed),
        ((passed, CULPRIT), passed),
        ((CULPRIT, passed), CULPRIT),
    ):
        found = replace(FULL, evidence=quotes, rulings=ruled, cause=BIG, to_do=ADVICE)
        (shown,) = [line for line in shown_of(written(found)).split("\n") if line[:3] == "- ["]
        assert f"`{first.text}`" in shown


def test_the_quotes_of_a_job_that_passed_stay_where_they_are() -> None:
    pair = (of_job(4711, 24, "token - 0 characters"), of_job(4700, 24, "token - 41 characters"))
    first = of_job(4711, 28, "GET 401")
    assert sort_quotes((first, *pair), {4711}) == [first, *pair]
    assert sort_quotes((first, *pair), {4711, 4700}) == [first, pair[1], pair[0]]


def test_a_long_quote_is_cut_rather_than_left_out_and_says_so() -> None:
    prefix = "org.opentest4j.api.AssertionFailedError: "
    said = "expected: <[reserved, confirmed, billed]> but was: <[reserved, billed, confirmed]>"
    long = of_job(4711, 107, prefix + said)
    (shown,) = _shown_quotes(long, of_job(4711, 9, "short"))
    assert shown == f"- [job 4711, line 107]({long.url}): … `{said[:70].rstrip()}` …"
    body = written(replace(FULL, evidence=(long,), cause=BIG, to_do=ADVICE))
    assert f"`{prefix}{said}`" in body.partition("<details>")[2]
    assert _shown_quotes(long, cause=CAUSE) == [
        f"- [job 4711, line 107]({long.url}): `{prefix}{said}`"
    ]


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        ("#6 2.744 E: Release file is not valid yet", "Release file is not valid yet"),
        ("psql:a/b.sql:6: ERROR:  column x does not exist", "ERROR: column x does not exist"),
        ("path/to/somewhere/file.py:1: error: none", "path/to/somewhere/file.py:1:"),
        ("a line that names no error at all, but is long", "a line that names no error at"),
        ("short: error: x", "short: error: x"),
        ("connect to db.internal:5432: refused", "connect to db.internal:5432:"),
        ("Error: get a/b: tls: failed to verify: it has expired in 2025", "it has expired in 2025"),
        (
            "Error: the job ended: see there and then: code: is: 1",
            "Error: the job ended: see",
        ),
    ],
)
def test_a_line_is_cut_from_where_it_names_the_error(line: str, cut: str) -> None:
    assert cut_line(line, 30) == cut


def test_a_line_is_cut_to_the_part_that_speaks_of_the_cause() -> None:
    line = '[server] [2026-11-26T13:39:40Z] 10.0.0.1 "GET /api/catalog/facets" 429 38 - 14.071 ms'
    assert cut_line(line, 40) == line[:40]
    assert cut_line(line, 40, find_words("The API answers 429.")) == (
        '10.0.0.1 "GET /api/catalog/facets" 429'
    )
    assert cut_line(line, 40, find_words("The server is slow.")) == line[:40]
    assert cut_line("a" * 99, 40, find_words("It answers 429.")) == "a" * 40


def test_a_part_of_a_line_is_marked_wherever_it_was_cut() -> None:
    even = of_job(4711, 7, "=" * 400)
    (shown,) = _shown_quotes(even)
    assert shown.endswith("=` …")
    place = Evidence(
        ReportedTest("parse: `a` is refused"), 3, f"{'x ' * 90}Error: y{' z' * 60}", "", 3
    )
    (shown,) = _shown_quotes(place)[:1] or [""]
    assert "parse: … `a`" not in shown
    last = "prefix " + "k" * 40 + '{"a":"x","status":500}'
    assert cut_line(last, 60, find_words("The status is 500.")) in last


CHECKED = (
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have "
    "updated the package versions, please update the hashes.\n"
    "    fleet-proto==4.1.0 from https://devpi.example.com/platform/prod/+f/802/fleet_proto-4.1.0-"
    "py3-none-any.whl (from -r requirements.txt (line 67)):\n"
    f"        Expected sha256 0b79c25f{'a1' * 28}\n"
    f"             Got        802c8b92{'b2' * 28}"
)
TYPES = 'sync/export.py:16: error: Item "None" of "date | None" has no attribute "isoformat"'


@pytest.mark.parametrize(
    ("line", "size", "shown"),
    [
        (f"{TYPES}  [union-attr]", 68, TYPES[19:]),
        (f"{TYPES}  [union-attr]", 60, TYPES[26:]),
        (
            "FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript "
            "heap out of memory",
            70,
            "near heap limit Allocation failed - JavaScript heap out of memory",
        ),
        (
            "Error: in 18+, these images are configured to store all of their data in a",
            71,
            "Error: in 18+, these images are configured to store all of their data",
        ),
        (
            'ERR_OUTDATED Cannot install with "frozen-lockfile" because the heap.lock is not up to '
            "date with packages/sdk/package.json",
            72,
            "because the heap.lock is not up to date with packages/sdk/package.json",
        ),
        (
            "[chrome 143.0 linux #0-0] WebDriverError: session not created: This version of Vite's "
            "driver only supports Chrome version 2048",
            72,
            "This version of Vite's driver only supports Chrome version 2048",
        ),
        (
            "21:17:40.601 ERROR QUALITY GATE STATUS: FAILED - View details on https://sonar.example"
            ".com/dashboard?id=shop",
            66,
            "21:17:40.601 ERROR QUALITY GATE STATUS: FAILED - View details on",
        ),
        (
            "/builds/ledger/src/Ledger.Api/Statements/StatementEndpoints.cs(20,1): error WHITESPACE"
            ": Fix whitespace formatting. Delete 4 characters. [/builds/ledger/src/Ledger.Api.x]",
            72,
            "error WHITESPACE: Fix whitespace formatting. Delete 4 characters.",
        ),
        (
            "CommandError: Conflicting migrations detected; multiple leaf nodes in the migration "
            "graph: (0017_shift_handover_note, 0017_swap in shifts).",
            72,
            "CommandError: Conflicting migrations detected; multiple leaf nodes in",
        ),
        (
            "SUMMARY: ThreadSanitizer: data race /builds/telemetry/spool/src/metrics/registry.cpp"
            ":40:9 in spool::Registry::report_loop()",
            75,
            "SUMMARY: ThreadSanitizer: data race …/src/metrics/registry.cpp:40:9 in",
        ),
    ],
)
def test_what_a_cut_line_shows_is_what_went_wrong(line: str, size: int, shown: str) -> None:
    about = find_words("Vite exceeds the 2048 MB heap.")
    assert cut_line(line, size, about) == shown
    (visible,) = _shown_quotes(of_job(4711, 7, line))
    assert " … `" not in visible.replace(": … `", "")


def test_short_lines_of_a_quote_stand_beside_one_another() -> None:
    versions = of_job(4711, 75, "Old chart version: 0.14.2\nNew chart version: 0.14.2")
    (shown,) = _shown_quotes(versions)
    assert shown == (
        f"- [job 4711, line 75]({versions.url}): `Old chart version: 0.14.2` / "
        "`New chart version: 0.14.2`"
    )


def test_a_long_line_that_announces_what_was_expected_is_not_the_one_that_is_shown() -> None:
    cause = f"The wheel is `802c8b92`…, the lock pins `0b79c25f`… of fleet-proto 4.1.0. {BIG}"
    (shown,) = _shown_quotes(of_job(4711, 54, CHECKED), cause=cause)
    assert "`Got 802c8b92b2" in shown.replace("        ", " ")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "2026-11-26T16:30:22.340771000Z 2026-11-26T16:30:22.340211Z 0 [ERROR] [MY-000067] "
            "[Server] ",
            "unknown variable 'mysql-native-password=ON'.",
        ),
        ("[2026-11-26 16:30:22,340] ", "the queue of events is closed already"),
        (
            "e: file:///builds/apps/kit/shared/src/commonMain/kotlin/Format.kt:3:1 ",
            "Expected formatMoney has no actual declaration for JS",
        ),
        ("FAIL - staging.yaml - main - ", 'container "migrate" has no memory limit'),
        ("proto/acme/orders/v1/order.proto:15:22:", 'Field "4" on message "Order" changed name'),
        (
            "/builds/apps/reader/Tests/ResumeTests.swift:39: error: -[Downloads.ResumeTests "
            "testResumes] : ",
            "Asynchronous wait failed: Exceeded timeout of 2 s.",
        ),
    ],
)
def test_times_places_and_names_before_an_error_are_cut_first(before: str, said: str) -> None:
    assert cut_line(before + said, 60) == said


def test_no_number_and_no_word_is_cut_but_a_very_long_one() -> None:
    line = "Error: The program size (1358241 bytes) is greater than allowed (1310720 bytes)"
    assert cut_line(line, 69).endswith("is greater than allowed")
    assert cut_line(line, 72) == line.removeprefix("Error: ")
    whole = "error: The check of the file's integrity has failed. The source code is invalid"
    assert cut_line(whole, 60).endswith("has failed.")
    assert cut_line(f"Error: {'b' * 99}", 60) == f"Error: {'b' * 53}"


def test_what_a_logger_writes_before_a_message_is_cut_first() -> None:
    before = (
        "2026-11-26T14:56:18.483Z ERROR 211 --- [checkout-service] [  main] com.zaxxer.hikari.X : "
    )
    said = "HikariPool-5 - Exception during pool initialization."
    assert cut_line(before + said, 60) == said
    about = find_words("The service's main pool takes 30 connections of checkout.")
    assert cut_line(before + said, 60, about) == said


def test_a_quote_that_only_announces_the_next_one_goes_last() -> None:
    head = of_job(4711, 14, "thread 'main' panicked at src/main.rs:13:5:")
    said = of_job(4711, 15, "attempt to subtract with overflow")
    (shown,) = _shown_quotes(head, said)
    assert shown == f"- [job 4711, line 15]({said.url}): `{said.text}`"
    both = replace(head, text=f"{head.text}\n{said.text}", last=15)
    (shown,) = _shown_quotes(both)
    assert shown == f"- [job 4711, line 15]({said.url}): `{said.text}` (1 of 2 lines)"


def test_of_a_longer_quote_the_line_is_shown_that_tells_most() -> None:
    assert _shown_quotes(SURCHARGE) == [TELLING]
    (shown,) = _shown_quotes(SINKS, cause=f"`resolve` returns the `stdout` sink. {BIG}")
    assert shown == f"- [job 4711, line 484]({JOB}#L484): `+     kind: 'stdout'` (1 of 4 lines)"
    ended = "ERROR: Job failed: execution took longer than 20m0s seconds"
    hangs = of_job(4711, 350, f"6: closing a pool of 4 workers\nCleaning up\n{ended}")
    (shown,) = _shown_quotes(hangs, cause=f"`close` wakes one of 4 workers. {BIG}")
    assert "`6: closing a pool of 4 workers` (1 of 3 lines)" in shown


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        (
            '│ Error: Unsupported argument\n│ \n│   on main.tf line 12, in module "dns":\n'
            '│   12:   ttl = 60\n│ \n│ An argument named "ttl" is not expected here.',
            '│ An argument named "ttl" is not expected here.',
            "The call passes `ttl`, an argument that `modules/dns` no longer declares.",
        ),
        (
            "[ERROR] com.acme.PoolTest.closes  Time elapsed: 0.2 s  <<< ERROR!\n"
            "java.lang.IllegalStateException: Pool is closed",
            "java.lang.IllegalStateException: Pool is closed",
            "`PoolTest.closes` takes a connection after the pool is closed.",
        ),
        (
            "Failure/Error: expect(response.parsed_body).to eq(%w[A-2 A-1])\n"
            '  expected: ["A-2", "A-1"]\n       got: ["A-1", "A-2"]',
            'got: ["A-1", "A-2"]',
            "`OrdersController` sorts by `asc`, so the oldest order comes first.",
        ),
        (
            "E   AssertionError: totals differ\nE   assert 3 == 4",
            "E   assert 3 == 4",
            "`total` forgets the last row.",
        ),
    ],
)
def test_the_line_that_names_the_thing_is_shown_rather_than_the_kind_of_error(
    text: str, line: str, cause: str
) -> None:
    quote = of_job(4711, 12, text)
    (shown,) = _shown_quotes(quote, cause=f"{cause} {BIG}")
    assert f"`{line}`" in shown


RACE = (
    "==================\nWARNING: DATA RACE\nWrite at 0x00c0000b4010 by goroutine 9:\n"
    "  github.com/acme/spool.(*Registry).Add()\n      /builds/acme/spool/registry.go:40 +0x64"
)
SANITIZED = (
    "==214==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010\n"
    "    #0 0x55d0 in parse /builds/acme/src/parse.c:88:14\n"
    "    #1 0x55d1 in main /builds/acme/src/main.c:12:3"
)
THREADS = (
    "WARNING: ThreadSanitizer: data race (pid=88)\n  Write of size 8 at 0x7b04 by thread T1:\n"
    "    #0 spool::Registry::report_loop() /builds/t/registry.cpp:40:9"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/builds/acme/app/jobs.py", line 41, in run\n'
    "    total = rates[\"vat\"]\n            ~~~~~^^^^^^^\nKeyError: 'vat'"
)
JAVA = (
    "java.lang.IllegalStateException: Pool is closed\n\tat com.acme.Pool.take(Pool.java:88)\n"
    "\tat com.acme.PoolTest.closes(PoolTest.java:31)"
)
PYTEST = (
    ">       assert total([100]) == 119\nE       assert 107.0 == 119\n"
    "E        +  where 107.0 = total([100])\ntests/test_totals.py:41: AssertionError"
)
NINJA = (
    "FAILED: CMakeFiles/a.dir/a.cpp.o\n/usr/bin/c++ -I/builds/x -O2 -Wall -c /builds/x/a.cpp\n"
    "/builds/x/a.cpp:7:10: fatal error: fmt/core.h: No such file or directory\n"
    "compilation terminated."
)
REASONS = [
    (RACE, 1, "`Registry.Add` in registry.go:40 writes without the lock."),
    (SANITIZED, 0, "`parse` in parse.c:88 reads a freed node; `main` calls it."),
    (THREADS, 0, "`Registry::report_loop` in registry.cpp:40 writes as another thread reads."),
    (TRACEBACK, 4, "`run` in app/jobs.py line 41 reads a rate that is gone."),
    (JAVA, 0, "`Pool.take` (Pool.java:88) is called by `PoolTest.closes` (PoolTest.java:31)."),
    (PYTEST, 1, "`total` in tests/test_totals.py:41 gives 107."),
    (NINJA, 2, "`a.cpp` line 7 includes a header that is not there."),
    ("=== FAILURES ===\n___ test_vat ___\nE   assert 1 == 2", 2, "`test_vat` has FAILURES."),
    ("    spool_test.go:41: 3 of 4 rows\n--- FAIL: TestFlush (0.02s)", 0, "`TestFlush` fails."),
    ("1) App\\PriceTest::testRounds\nFailed asserting that 2.67 matches 2.68.", 1, "testRounds"),
    ("  1) Orders sorts newest\n       got: [\"a\", \"b\"]", 1, "Orders sorts newest last."),
    ("a.c:3:1: error: unknown type 'foo'\n1 error generated.\nmake: *** [Makefile:31: a.o] Error 1",
     0, "Makefile:31 makes a.o."),
    ("$ make test\n+ ./run.sh\n./run.sh: line 4: jq: command not found", 2, "`make test` runs it."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "cause"), REASONS)
def test_the_visible_line_of_a_longer_quote_is_the_one_with_the_reason(
    text: str, line: int, cause: str
) -> None:
    chosen = choose_line(of_job(4711, 12, text), find_words(cause))
    assert chosen is not None
    assert (chosen.line, chosen.text) == (12 + line, text.split("\n")[line])


MODULE = (
    "Error: Cannot find module '@acme/design/dist/components/button/index.js' imported from "
    "'/builds/acme/shop/src/app.ts'"
)
STAT = "cp: cannot stat '/builds/shop/dist/assets/inter-var-latin.woff2': No such file or directory"
DEEP = (
    "AssertionError: expected [ { id: 1, name: 'south' }, { id: 2, name: 'north' } ] to deeply "
    "equal [ { id: 2, name: 'north' } ]"
)


@pytest.mark.parametrize(
    ("line", "size", "shown"),
    [
        (MODULE, 52, "Error: Cannot find module '…/button/index.js'"),
        (MODULE, 75, "Error: Cannot find module '@acme/design/dist/components/button/index.js'"),
        (STAT, 52, "cp: cannot stat '…/assets/inter-var-latin.woff2': No"),
        (DEEP, 52, "AssertionError: expected [ { id: 1, name: 'south' },"),
        ('error: Argument 1 has type "Decimal | None of it"; expected "Decimal"', 40,
         "error: Argument 1 has type"),
        ("ERROR: column vat does not exist at app/orders/models/builder.py", 55,
         "ERROR: column vat does not exist at …/models/builder.py"),
        ("error: the file src/a/b/c/d/e/f/" + "g" * 60 + ".py is read twice", 40,
         "error: the file"),
    ],
)  # fmt: skip
def test_a_cut_ends_neither_in_a_path_nor_in_a_quotation(line: str, size: int, shown: str) -> None:
    assert cut_line(line, size) == shown


def test_a_quote_that_explains_nothing_gives_way_to_one_that_does() -> None:
    banner = replace(
        of_job(4711, 1, "Running with gitlab-runner 19.4.0"), lacks="any run prints it"
    )
    reason = of_job(4711, 40, "null is no version")
    assert [line[:20] for line in _shown_quotes(banner, reason)] == ["- [job 4711, line 40"]


def test_a_quote_is_shown_whole_before_another_one_is() -> None:
    shown = shown_of(written(replace(FULL, evidence=(SURCHARGE, CULPRIT), cause=BIG)))
    assert SURCHARGE.text.splitlines()[0] in shown
    assert CULPRIT.text not in shown


def test_a_long_line_that_ends_with_a_colon_announces_nothing() -> None:
    assert announces_next("  1) wraps around:")
    assert not announces_next(f"AssertionError: Timed out retrying: {'the button ' * 12}:")


def test_a_line_that_several_jobs_printed_is_shown_once() -> None:
    said = "error: the registry does not answer"
    jobs = [of_job(number, 7, said) for number in (4711, 4712)]
    assert len(_shown_quotes(*jobs, cause=CAUSE, to_do=TO_DO)) == 1


def test_a_bare_bracket_is_never_shown_alone() -> None:
    assert _shown_quotes(BRACKETS) == []
    (shown,) = _shown_quotes(BRACKETS, cause=CAUSE, to_do=TO_DO)
    assert shown == f"- [job 4711, lines 7-9]({JOB}#L7):"


QUOTES = (
    of_job(4711, 19, "F401 unused"),
    of_job(4711, 50, "B006 mutable"),
    of_job(4712, 19, "error: None"),
    of_job(4712, 21, "error: str"),
)


def test_each_job_has_a_quote_before_one_has_a_second() -> None:
    two = tuple(Ruling(str(job), (job,), None, (), ()) for job in (4711, 4712))
    full = replace(FULL, evidence=QUOTES, rulings=two, cause=f"{CAUSE} {LONG}")
    shown = shown_of(written(replace(full, to_do=f"{TO_DO} {LONG}")))
    assert shown.index("F401 unused") < shown.index("error: None")
    assert "B006" not in shown
    roomy = shown_of(written(replace(full, cause=CAUSE)))
    assert roomy.index("error: None") < roomy.index("B006 mutable")


SCHEMA = (
    "[ERROR] values.yaml: - ingress.annotations.nginx.ingress.kubernetes.io/proxy-read-timeout: "
    "Invalid type. Expected: string, given: integer"
)


@pytest.mark.parametrize(
    ("line", "size", "shown"),
    [
        (SCHEMA, 130, SCHEMA[len("[ERROR] ") :]),
        (SCHEMA, 75, SCHEMA[SCHEMA.index("proxy-read") :]),
        (SCHEMA, 60, SCHEMA[SCHEMA.index("Invalid") :]),
        (SCHEMA, 35, "Expected: string, given: integer"),
        (
            f"{'x' * 90} the rate of {'y' * 20}: expected: 0.19 as before",
            60,
            f"the rate of {'y' * 20}: expected: 0.19 as before",
        ),
    ],
)
def test_a_value_is_shown_with_what_it_is_of_where_there_is_room(
    line: str, size: int, shown: str
) -> None:
    assert cut_line(line, size) == shown
