"""What nobody does in this house, found in the syntax tree."""

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.law.house import Module, modules, none, parse, product
from tests.law.test_imports import PURE

Rule = Callable[[ast.AST], bool]

CATCHES_ALL = {
    *("worker/turns/investigate.py", "worker/turns/turn.py"),
    "worker/queue/messages.py",
}
"""The places that may catch everything: the turn makes a note of it; and what is no message fails
inside kombu in any way, where it would end the worker."""

READS_ENVIRONMENT = {
    *("worker/settings/loading.py", "worker/transport/failures.py"),
    *("sandbox/build.py", "sandbox/image/isolation.py"),
}
"""Settings are read once. The image builder is a program of its own, and so is what looks at a pod
from inside. Whose certificates are trusted, OpenSSL reads by itself too."""

BELIEVES = {
    "worker/conversation/context_json.py",
    "worker/sessions/recent.py",
}
"""Only these read a stored context or row without its key, and check that it is of that key."""

LISTED = "do without it, or add the file to {} in tests/law/test_habits.py, with the reason"

PATCHERS = {("unittest", "mock"), ("pytest_mock",), ("flexmock",)}
PATCHES = {("monkeypatch", "setattr"), ("monkeypatch", "setitem"), ("monkeypatch", "delattr")}


def found(files: tuple[Module, ...], rule: Rule, but: frozenset[str] | set[str]) -> list[str]:
    """Where `rule` holds, outside the files of `but`."""
    return [
        f"{file.path}:{getattr(node, 'lineno', 0)}"
        for file in files
        if file.path not in but
        for node in ast.walk(file.tree)
        if rule(node)
    ]


def catches_everything(node: ast.AST) -> bool:
    """`except:`, `except Exception`, `except (ValueError, BaseException)`."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(
        each is None or (isinstance(each, ast.Name) and each.id in ("Exception", "BaseException"))
        for each in caught
    )


def reads_environment(node: ast.AST) -> bool:
    """`os.environ`, `os.getenv`, or either imported by name."""
    names = ("environ", "environb", "getenv", "getenvb")
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in names for alias in node.names)
    return (
        isinstance(node, ast.Attribute)
        and node.attr in names
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    )


def patches(node: ast.AST) -> bool:
    """Replaces a part of the product behind its back, instead of handing another one in."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any(name[: len(banned)] == banned for name in _names(node) for banned in PATCHERS)
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and ((node.value.id, node.attr) in PATCHES or node.value.id == "mocker")
    )


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, ...]]:
    package = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        yield tuple(f"{package}.{alias.name}".strip(".").split("."))


def unfinished(node: ast.AST) -> bool:
    """A body that was left for later."""
    return isinstance(node, ast.Raise) and "NotImplemented" in ast.dump(node)


def believes_the_store(node: ast.AST) -> bool:
    """Reads a stored object without the key under which it lay."""
    names = ("load_context", "load_row")
    called = node.func if isinstance(node, ast.Call) else None
    return (isinstance(called, ast.Attribute) and called.attr in names) or (
        isinstance(called, ast.Name) and called.id in names
    )


def test_what_is_stored_is_read_with_the_key_under_which_it_lay() -> None:
    assert none(found(modules("worker"), believes_the_store, BELIEVES), LISTED.format("BELIEVES"))


def test_only_the_turn_and_the_reader_of_the_queue_catch_everything() -> None:
    assert none(found(product(), catches_everything, CATCHES_ALL), LISTED.format("CATCHES_ALL"))


def test_only_settings_read_the_environment() -> None:
    assert none(
        found(product(), reads_environment, READS_ENVIRONMENT), LISTED.format("READS_ENVIRONMENT")
    )


def test_tests_patch_nothing() -> None:
    assert none(
        found(modules("tests"), patches, set()), "make a seam: hand in what the test must control"
    )


def test_nothing_is_left_for_later() -> None:
    assert none(found(product(), unfinished, set()), "finish it, or leave it out")


def test_a_clock_is_never_read_in_a_pure_room() -> None:
    pure = modules(*(room.replace(".", "/") for room in PURE))
    assert none(found(pure, reads_clock, set()), "take the time as an argument")


def reads_clock(node: ast.AST) -> bool:
    """`datetime.now()` and the like, whatever they were imported as."""
    return isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (catches_everything, "try:\n    pass\nexcept Exception:\n    pass"),
        (catches_everything, "try:\n    pass\nexcept:\n    pass"),
        (catches_everything, "try:\n    pass\nexcept (OSError, BaseException) as e:\n    pass"),
        (reads_environment, "import os\nos.environ['HOME']"),
        (reads_environment, "from os import getenv"),
        (patches, "import unittest.mock as m"),
        (patches, "from unittest import mock"),
        (patches, "from unittest.mock import Mock"),
        (patches, "def test(mocker):\n    mocker.patch('x')"),
        (patches, "def test(monkeypatch):\n    monkeypatch." + "setattr(a, 'b', 1)"),
        (unfinished, "def f():\n    raise NotImplementedErr" + "or"),
        (reads_clock, "from datetime import datetime as d\nd.now()"),
        (believes_the_store, "context_json.load_context(data)"),
        (believes_the_store, "load_row(data)"),
    ],
)
def test_a_planted_habit_is_found(rule: Rule, source: str) -> None:
    assert len(found((parse("worker/planted.py", source),), rule, set())) == 1


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (catches_everything, "try:\n    pass\nexcept (OSError, ValueError):\n    pass"),
        (reads_environment, "import os\nos.path.join('a', 'b')"),
        (patches, "def test(monkeypatch):\n    monkeypatch.setenv('A', 'b')"),
    ],
)
def test_a_good_habit_is_not_found(rule: Rule, source: str) -> None:
    assert found((parse("worker/planted.py", source),), rule, set()) == []
