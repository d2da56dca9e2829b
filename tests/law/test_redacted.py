"""What is not redacted becomes no document: types say so, and these are the ways around types."""

import ast
from collections.abc import Iterator

import pytest

from tests.law.house import Module, agree, none, parse, product

HOME = "worker/safety/redacted_values.py"

ASSUME = {
    "worker/gitlab/read/job_log.py": "reads back what was redacted before it was written, and says "
    "its size and which versions its lines name",
    "worker/gitlab/read/redactions.py": "packs members that are redacted one by one",
    "worker/gitlab/read/repository.py": "numbers lines of a file that was redacted as a whole",
    "worker/gitlab/read/base.py": "puts names where unseen characters are",
}
"""Who may say of bytes that they are redacted, and why that is true."""


LISTED = "redact it, or add the file to ASSUME in tests/law/test_redacted.py, with why it is true"
OWN = f"let {HOME} make it"


def names(file: Module, *wanted: str) -> Iterator[str]:
    """Where a file names one of these."""
    for node in ast.walk(file.tree):
        named = (
            {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom)
            else {getattr(node, "id", ""), getattr(node, "attr", "")}
        )
        if named & set(wanted):
            yield f"{file.path}:{getattr(node, 'lineno', 0)}"


def makes_its_own(file: Module) -> Iterator[str]:
    """Where a file calls the type itself, takes its key, or casts to it."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
            first = ast.unparse(node.args[0]) if node.args else ""
            wrong = called == "Redacted" or (called == "cast" and "Redacted" in first)
        else:
            wrong = isinstance(node, ast.ImportFrom) and _takes_key(node)
        if wrong:
            yield f"{file.path}:{getattr(node, 'lineno', 0)}"


def _takes_key(node: ast.ImportFrom) -> bool:
    private = any(alias.name.startswith("_") for alias in node.names)
    return (node.module or "").endswith("redacted_values") and private


def test_few_files_may_say_that_bytes_are_redacted() -> None:
    others = (file for file in product() if file.path not in {HOME, *ASSUME})
    assert none([place for file in others for place in names(file, "assume_redacted")], LISTED)


def test_nobody_else_makes_redacted_bytes() -> None:
    others = (file for file in product() if file.path != HOME)
    assert none([place for file in others for place in makes_its_own(file)], OWN)


def test_every_file_that_may_needs_to() -> None:
    paths = {file.path for file in product() if list(names(file, "assume_redacted"))}
    assert agree(paths, ASSUME, "ASSUME in tests/law/test_redacted.py, with why that is true")


@pytest.mark.attack("redaction")
@pytest.mark.parametrize(
    "source",
    [
        "Redacted(b'x', key)",
        "redacted_values.Redacted(b'x', redacted_values._KEY)",
        "from worker.safety.redacted_values import _KEY",
        "cast(Redacted, b'x')",
        "cast('Redacted', b'x')",
    ],
)
def test_a_way_around_is_seen(source: str) -> None:
    assert list(makes_its_own(parse("worker/sources/example.py", source)))
