"""The house as its laws see it: modules, what they import, the functions in them."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = ROOT / "worker/lab/case"
"""The bundled case is somebody else's project, and breaks on purpose."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its dotted name, its path from the root, its text and its syntax tree."""

    name: str
    path: str
    source: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return len(self.source.splitlines())


def parse(path: str, source: str) -> Module:
    """A file of the house, or one that a test has made up."""
    parts = Path(path).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, source, ast.parse(source, path))


@cache
def read(path: Path) -> Module:
    """A file of the house, read once for all laws."""
    return parse(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """The Python files under `folders`."""
    return tuple(
        read(path)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if CASE not in path.parents
    )


def product() -> tuple[Module, ...]:
    """What is shipped."""
    return modules("worker", "sandbox")


def imports(module: Module, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import, also those inside functions.

    `from a import b` imports `a.b` where that is one of the `known` modules, else `a`.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = _origin(module, node)
            for alias in node.names:
                inner = f"{package}.{alias.name}"
                yield node.lineno, inner if inner in known else package


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (module.path.endswith("/__init__.py"))
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def functions(module: Module) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """Lines from `def` to the end of the body, without its documentation."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    told = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - told


def inside(name: str, rooms: Collection[str]) -> str | None:
    """The one of `rooms` that the module `name` is in: itself or the nearest package above it."""
    while name:
        if name in rooms:
            return name
        name = name.rpartition(".")[0]
    return None


def none(found: Collection[str], to_do: str = "") -> bool:
    """Whether nothing was found; a failure says what was found, and what to do about it."""
    if found:
        pytest.fail("\n".join(["", *found, *([f"→ {to_do}"] if to_do else [])]), pytrace=False)
    return True


def agree(rows: Collection[str], listed: Collection[str], where: str) -> bool:
    """Whether a list has what it should: all `rows`, and nothing else.

    The test's failure names each row that is missing and each that is too much. `where` says where
    the list is, and as what a row stands in it.
    """
    return none(
        [
            *(f"{each} is missing: add it to {where}" for each in sorted(set(rows) - set(listed))),
            *(
                f"{each} is no more: remove it from {where}"
                for each in sorted(set(listed) - set(rows))
            ),
        ]
    )
