"""Reports of a runner that may lie."""

from typing import Any

import pytest

from sandbox.base import OUT, SandboxError, SandboxLimit
from sandbox.framed import clip_text, make_empty_result, parse_result, raise_refusal
from sandbox.wire import BadReport

STREAM = {"preview": "p", "binary": False, "size": 1, "lines": 0, "kept": 0}


def report(**changes: Any) -> dict[str, Any]:
    """A good report, changed."""
    return {"exit_code": 0, "timed_out": False, "stdout": STREAM, "stderr": STREAM, **changes}


def test_a_good_report_is_believed() -> None:
    spilled = {"preview": "…", "binary": True, "size": 9000, "lines": 7, "kept": 8000}
    result = parse_result(report(exit_code=137, stderr=spilled), 3, 0.5)
    assert (result.exit_code, result.timed_out, result.seconds) == (137, False, 0.5)
    assert (result.stdout.preview, result.stdout.path) == ("p", None)
    assert (result.stderr.path, result.stderr.file_size) == (f"{OUT}/3.err.txt", 8000)


@pytest.mark.parametrize(
    "lie",
    [
        {"exit_code": "0"},
        {"exit_code": True},
        {"exit_code": -1},
        {"exit_code": 256},
        {"exit_code": 1.0},
        {"exit_code": None},
        {"timed_out": True},
        {"timed_out": 0},
        {"stdout": None},
        {"stdout": []},
        {"stderr": {}},
        *(
            {"stdout": {**STREAM, **lie}}
            for lie in (
                *({"preview": 1}, {"preview": None}, {"binary": 1}, {"size": -1}, {"size": "1"}),
                *({"size": 1 << 70}, {"size": True}, {"kept": 2}, {"lines": 2}, {"kept": 0.0}),
                {"size": float("nan")},
            )
        ),
    ],
)
def test_a_lying_report_is_refused(lie: dict[str, Any]) -> None:
    with pytest.raises(BadReport):
        parse_result(report(**lie), 1, 0.1)


def test_a_preview_is_clipped_again() -> None:
    lie = {**STREAM, "preview": "ü" * 60_000, "size": 120_000}
    assert parse_result(report(stdout=lie), 1, 0.1).stdout.preview == "ü" * 2560


@pytest.mark.parametrize(
    ("text", "clipped"),
    [("abcdef", "abcd"), ("abcü", "abc"), ("abü", "abü"), ("\ud800x", "?x"), ("", "")],
)
def test_a_clipped_text_is_valid_utf_8(text: str, clipped: str) -> None:
    assert clip_text(text, 4) == clipped


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("limit", SandboxLimit),
        ("missing", FileNotFoundError),
        ("path", ValueError),
        ("corrupt", SandboxError),
        (["odd"], SandboxError),
    ],
)
def test_a_refusal_is_raised_as_what_it_stands_for(code: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^/tmp/x: m{300}$"):
        raise_refusal({"error": code, "message": "m" * 999}, "/tmp/x")


def test_no_refusal_raises_nothing() -> None:
    raise_refusal({"size": 1}, "/tmp/x")


def test_a_command_without_a_report_timed_out_or_was_killed() -> None:
    assert make_empty_result(1.0, timed_out=True).exit_code is None
    killed = make_empty_result(1.0, timed_out=False)
    assert (killed.exit_code, killed.timed_out) == (137, False)
    assert killed.stderr.size == len(killed.stderr.preview)
