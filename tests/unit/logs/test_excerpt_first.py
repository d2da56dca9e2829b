"""Of failures that begin alike, an excerpt shows the first one before parts of the others."""

from tests.unit.logs.test_excerpt import calm, log, texts
from worker.logs.excerpt import preview_log
from worker.logs.excerpt.scan import Line, ScanResult
from worker.logs.excerpt.weigh import favour_first

HEAD, DETAIL = frozenset(("opens", "crossed")), frozenset(("expected",))


def fail(number: int) -> list[str]:
    return [
        f"[-] - shelf {number} holds what was put there -> Expected and actual values differ!",
        f"Expected: '{number} boxes of apples'",
        f"Actual  : '{number * 7} boxes of pears'",
        f"at Verify-Equal, /builds/depot/Axiom/Verify-Equal{number}.ps1:16",
        *(f"at <ScriptBlock>, /builds/depot/Shelf{number}.ts.ps1:{n}" for n in (184, 179, 167)),
    ]


def favour(
    lines: dict[int, tuple[frozenset[str], float]], commands: tuple[int, ...] = ()
) -> list[float]:
    """Return the new weights of lines that are given by index, with their marks and weights."""
    read = [Line(at, 1, None, str(at), marks, str(at)) for at, (marks, _) in lines.items()]
    total = max(lines) + 1
    found = ScanResult(read, [], [*commands], [], [], 0, total, total)
    return favour_first(found, read, [weight for _, weight in lines.values()])


def test_the_first_of_many_failed_tests_is_shown_with_what_it_says() -> None:
    failures = [line for n in range(2, 22) for line in (*calm(12, seed=n), *fail(n))]
    shown = texts(preview_log(log(*calm(600), *failures, *calm(2, seed=40)), 1_024))
    assert set(fail(2)[:3]) <= set(shown)


def test_the_first_weighs_as_much_as_the_best_and_its_lines_gain_the_same() -> None:
    first, detail, far, best = favour(
        {10: (HEAD, -0.5), 11: (DETAIL, -1.0), 20: (DETAIL, -1.0), 30: (HEAD, 0.5)}
    )
    assert (best, far) == (0.5, -1.0)
    assert best < first < best + 0.1
    assert round(detail - -1.0, 6) == round(first - -0.5, 6)


def test_a_failure_of_an_earlier_command_is_not_the_first_of_a_later_one() -> None:
    lines = {10: (HEAD, -0.5), 30: (HEAD, 0.5)}
    assert favour(lines, commands=(20,)) == [-0.5, 0.5]
    assert favour(lines, commands=(5,)) != [-0.5, 0.5]


def test_a_failure_is_not_the_first_of_those_that_begin_in_another_way() -> None:
    other = frozenset(("opens", "numbered"))
    assert favour({10: (other, -0.5), 30: (HEAD, 0.5)}) == [-0.5, 0.5]


def test_a_warning_or_a_configuration_check_is_no_failure() -> None:
    for aside in ("warned", "probe"):
        assert favour({10: (HEAD | {aside}, -0.5), 30: (HEAD, 0.5)}) == [-0.5, 0.5]
