"""The examples of CONTRIBUTING.md do what is said of them."""

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.law.house import ROOT
from worker.cli.doctor import make_installation
from worker.doctor.base import Check, run_checks
from worker.settings import Settings


def run_example(marker: str) -> dict[str, Any]:
    """Run the one example that has this text; returns what it defines."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    (code,) = (each for each in found if marker in each)
    defined: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), defined)
    return defined


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """Allow this process so many open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("most", "status", "finding"),
    [(1000, "warning", "at most 1000"), (4096, "ok", "up to 4096")],
)
def test_the_check_of_the_doctor_finds_what_it_says(most: int, status: str, finding: str) -> None:
    check = Check("open-files", "Sandbox", run_example("def check_open_files")["check_open_files"])
    with open_files(most):
        report = run_checks(make_installation(Settings()), [check], lambda text: text)
    ((_, line),) = report.lines
    assert (line.name, line.status, line.finding) == ("open files", status, finding)
