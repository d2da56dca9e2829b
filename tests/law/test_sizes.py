"""How large a file and a function may be. What outgrows it becomes a folder, or two functions."""

import ast
from collections import Counter
from statistics import median

import pytest

from tests.law.house import Function, Module, functions, length, modules, none, parse, product

FILE = {"worker": 400, "sandbox": 400, "tests": 500}
FUNCTION = 60
MEDIAN = 12
PROTOCOL = 7
LOOSE = {"worker": 7, "worker/core": 5, "worker/sources": 7}
"""How many modules may lie beside the rooms of a folder; what is more needs a room."""


def too_long_files(files: tuple[Module, ...]) -> list[str]:
    """Files over the cap of their top folder."""
    return [
        f"{file.path}: {file.lines} lines"
        for file in files
        if file.lines > FILE[file.path.partition("/")[0]]
    ]


def too_long_functions(files: tuple[Module, ...]) -> list[str]:
    """Functions over the cap."""
    return [
        f"{file.path}:{function.lineno}: {function.name} has {length(function)} lines"
        for file in files
        for function in functions(file)
        if length(function) > FUNCTION
    ]


def too_wide_protocols(files: tuple[Module, ...]) -> list[str]:
    """Protocols that declare more members than a caller may be asked to know."""
    return [
        f"{file.path}:{found.lineno}: {found.name} declares {count} members"
        for file in files
        for found in ast.walk(file.tree)
        if isinstance(found, ast.ClassDef)
        and any(ast.unparse(base) == "Protocol" for base in found.bases)
        and (count := sum(isinstance(each, Function | ast.AnnAssign) for each in found.body))
        > PROTOCOL
    ]


def too_many_loose(files: tuple[Module, ...]) -> list[str]:
    """Folders in which more modules lie beside the rooms than may."""
    names = [file.path.rpartition("/") for file in files]
    counts = Counter(folder for folder, _, name in names if name != "__init__.py")
    return [
        f"{folder}: {counts[folder]} modules beside its rooms"
        for folder, most in LOOSE.items()
        if counts[folder] > most
    ]


def test_modules_lie_in_rooms() -> None:
    assert none(too_many_loose(product()), "make a room of those that belong together")


def test_a_planted_heap_is_found() -> None:
    planted = tuple(parse(f"worker/core/m{number}.py", "") for number in range(6))
    assert too_many_loose(planted) == ["worker/core: 6 modules beside its rooms"]


def test_no_protocol_is_too_wide() -> None:
    assert none(too_wide_protocols(product()), "ask for less, or make two of it")


def test_a_planted_wide_protocol_is_found() -> None:
    members = "".join(f"    def find_{number}(self) -> int: ...\n" for number in range(8))
    planted = parse("worker/wide.py", f"class Wide(Protocol):\n{members}")
    assert len(too_wide_protocols((planted,))) == 1


def test_no_file_is_too_long() -> None:
    assert none(too_long_files(modules(*FILE)), "make two files of it")


def test_no_function_is_too_long() -> None:
    assert none(too_long_functions(modules(*FILE)), "make two functions of it")


def test_functions_are_short_as_a_rule() -> None:
    lengths = [length(function) for file in product() for function in functions(file)]
    assert median(lengths) <= MEDIAN


@pytest.mark.parametrize("folder", FILE)
def test_a_planted_giant_is_found(folder: str) -> None:
    body = "    pass\n" * FILE[folder]
    giant = (parse(f"{folder}/giant.py", f"def giant():\n{body}"),)
    assert len(too_long_files(giant)) == len(too_long_functions(giant)) == 1
