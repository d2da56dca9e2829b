"""What a line is worth: as much as its copies, and as the stack trace below it."""

from tests.unit.logs.test_excerpt import calm, log, texts
from worker.logs.excerpt import preview_log
from worker.logs.excerpt.choose import Choice, compute_worths
from worker.logs.excerpt.scan import Line


def test_copies_of_a_line_are_worth_the_same() -> None:
    said = ["Caused by: the tax table is empty", "the shelf is full", "    ^"]
    lines = [Line(at, 2, None, text, frozenset(), text) for at, text in enumerate((*said, *said))]
    first, other, short, *copies = compute_worths(lines, [1.0, -2.0, 0.5, -3.0, 2.0, -4.0])
    assert copies[:2] == [first, other]
    assert first < other
    assert copies[2] < short


def test_of_a_failure_that_is_retried_one_run_is_shown() -> None:
    run = [
        'Exception in thread "main" java.lang.ExceptionInInitializerError',
        *(f"\tat shop.cart.Price{n:x}.total(Price{n:x}.java:{n})" for n in range(40, 52)),
        "Caused by: java.lang.RuntimeException: the tax table has no rate for zone 11",
        "\tat shop.tax.Table.<clinit>(Table.java:1585)",
    ]
    runs = [line for n in (2, 3, 4) for line in (*run, *calm(4, seed=n), f"Retrying, {n} of 4.")]
    shown = texts(preview_log(log(*calm(900), *runs), 1_024))
    start = shown.index(run[0])
    assert shown[start : start + len(run)] == run


def test_the_heaviest_lines_are_shown_however_many_shorter_ones_there_are() -> None:
    head = (
        "  1) test a shipment leaves the depot on the day that was promised and the customer is"
        " told that it does (Depot.Integration.PromisedDayTest)"
    )
    failure = [
        head,
        "     test/depot/integration/promised_day_test.exs:153",
        "     ** (ExUnit.TimeoutError) test timed out after 60000ms. You can change the timeout:",
        '       1. per test by setting "@tag timeout: x"',
        '       2. per case by setting "@moduletag timeout: x"',
        '       3. globally via "ExUnit.start(timeout: x)" configuration',
        "     code: capture_log fn ->",
        "     stacktrace:",
        "       (inets) httpc.erl:623: :httpc.handle_answer/3",
        "       test/support/http_client.exs:42: Depot.HTTPClient.request/4",
        "       test/depot/integration/day_test.exs:183: anonymous fn/0 in Depot.DayTest.test/1",
        "       (ex_unit) lib/ex_unit/capture_log.ex:78: ExUnit.CaptureLog.capture_log/2",
        "       test/depot/integration/day_test.exs:158: (test)",
        "       (ex_unit) lib/ex_unit/runner.ex:312: ExUnit.Runner.exec_test/1",
        "       (stdlib) timer.erl:166: :timer.tc/1",
        "       (ex_unit) lib/ex_unit/runner.ex:251: anonymous fn/4 in ExUnit.Runner.spawn_test/3",
    ]
    cleaned = log(*calm(300), *failure, "Finished in 84.1 seconds", "55 tests, 1 failure")
    assert head in texts(preview_log(cleaned, 1_024))


def test_what_was_raised_is_shown_with_its_stack_trace() -> None:
    raised = "    shop.StockMismatch: the added boxes of the shelf differ, for" + " a shelf," * 9
    frames = [
        *(f"        at shop.depot.Stock{n:x}.count(Stock{n:x}.java:{n})" for n in range(30, 60)),
        *(f"        at test.worker.Test{n:x}.processTest(Test{n:x}.java:{n})" for n in range(9)),
    ]
    end = ["FAILURE: Build failed with an exception.", "* What went wrong:", "BUILD FAILED in 3s"]
    shown = texts(preview_log(log(*calm(300), raised, *frames, *end), 1_024))
    assert [line for line in shown if line in frames]
    assert raised in shown


def choose(weights: list[float]) -> list[str]:
    """Return what is shown of lines with these weights."""
    lines = [
        Line(at, 1, None, f"the shelf {at} of the depot", frozenset(), f"{at}")
        for at in range(len(weights))
    ]
    return texts(Choice(lines, weights, len(lines), 4_096, range(len(lines))).write_text())


def test_what_says_nothing_is_not_shown_because_there_is_room() -> None:
    assert choose([-4.5, 0.5, *[-4.5] * 40]) == ["", "the shelf 1 of the depot", ""]


def test_what_says_little_is_shown_where_nothing_says_much_more() -> None:
    assert len(choose([-4.5, -1.5, *[-4.5] * 10])) == 12


def test_what_says_nothing_is_shown_between_two_lines_that_do() -> None:
    assert choose([0.5, -4.5, 0.5, *[-4.5] * 3]) == [
        *(f"the shelf {at} of the depot" for at in range(3)),
        "",
    ]


def test_a_drawn_frame_without_a_word_is_shown_only_between_lines_that_are_shown() -> None:
    failures = [
        line
        for number in range(8)
        for line in (
            f" ✘ Cash is rounded in country {number}",
            "   ┐",
            "   ├ TypeError: Money::roundCash(): Argument #2 must be of type int, array given",
            "   │",
            "   ╵ /builds/kassa/receipts/src/Money.php:6",
            f"   ╵ /builds/kassa/receipts/tests/ReceiptTest.php:{16 + 5 * number}",
            "   ┴",
            "",
        )
    ]
    end = ["ERRORS!", "Tests: 8, Assertions: 12, Errors: 8."]
    shown = preview_log(log(*calm(300), *failures, *end), 2_048).split("\n")
    frames = [at for at, line in enumerate(shown) if line[-1:] in "┐│┴"]
    assert frames
    assert not [at for at in frames if "…" in (shown[at - 1], shown[at + 1])]
