"""How much a reader has to take in: of one file, one function, and of the house as a whole.

The house's figures may fall and not rise: `python -m tests.law.figures` prints them.
"""

import pytest

from tests.law.figures import SMALL, count_code, count_importers, list_helpers, measure
from tests.law.house import Module, functions, length, modules, none, parse, product

FILE = {"worker": 400, "sandbox": 400, "tests": 500}
FUNCTION = 60

MOST: dict[str, float] = {
    "files": 432,
    "lines": 92_690,
    "public functions and classes": 2_045,
    "Protocols": 21,
    "private helpers used once in 1,000 lines": 12.6,
    "modules with one importer": 101,
}
"""What the house may weigh. Who makes it lighter lowers the figure; who must raise one says why."""

ALONE = {
    "worker/cli/": "a command is loaded by its name",
    "sandbox/image/": "programs of the image",
    "worker/doctor/table.py": "the table of checks",
}
"""Where small files may stand alone that nobody or one other file imports, and why."""


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


def too_small_files(files: tuple[Module, ...]) -> list[str]:
    """Files of a few lines that only one other file needs, or none."""
    importers = count_importers(files)
    return [
        f"{file.path}: {count_code(file)} lines of code, {importers[file.name]} importers"
        for file in files
        if not file.path.endswith("__init__.py")
        and not file.path.startswith(tuple(ALONE))
        and count_code(file) < SMALL
        and importers[file.name] < 2
    ]


def too_heavy(files: tuple[Module, ...], most: dict[str, float]) -> list[str]:
    """The figures that are over their limit."""
    return [
        f"{name}: {figure:g}, at most {most[name]:g}"
        for name, figure in measure(files).items()
        if figure > most[name]
    ]


def test_no_file_is_too_long() -> None:
    assert none(too_long_files(modules(*FILE)), "make two files of it")


def test_no_function_is_too_long() -> None:
    assert none(too_long_functions(modules(*FILE)), "make two functions of it")


def test_no_small_file_stands_alone() -> None:
    assert none(too_small_files(product()), "put it where it is used, or say why in ALONE")


def test_the_house_gets_no_heavier() -> None:
    assert none(too_heavy(product(), MOST), "look for what can go, or what can be one")


@pytest.mark.parametrize("folder", FILE)
def test_a_planted_giant_is_found(folder: str) -> None:
    body = "    pass\n" * FILE[folder]
    giant = (parse(f"{folder}/giant.py", f"def giant():\n{body}"),)
    assert len(too_long_files(giant)) == len(too_long_functions(giant)) == 1


def test_a_planted_dwarf_is_found() -> None:
    planted = (
        parse("worker/a.py", "def find(): ..."),
        parse(
            "worker/b.py", "from worker.a import find\nfrom worker.c import seek\n" + "x = 1\n" * 50
        ),
        parse("worker/c.py", "def seek(): ..."),
        parse("worker/d.py", "from worker.c import seek\n" + "x = 1\n" * 50),
    )
    assert too_small_files(planted) == ["worker/a.py: 1 lines of code, 1 importers"]


def test_a_planted_weight_is_found() -> None:
    source = "class Port(Protocol): ...\ndef _once(): ...\ndef both():\n    _once()\n    _twice()\n"
    planted = (parse("worker/a.py", f"{source}    _twice()\ndef _twice(): ...\n"),)
    assert [helper.name for helper in list_helpers(planted[0])] == ["_once"]
    none_allowed = dict.fromkeys(MOST, 0.0)
    assert [line.partition(":")[0] for line in too_heavy(planted, none_allowed)] == [
        *("files", "lines", "public functions and classes", "Protocols"),
        "private helpers used once in 1,000 lines",
    ]
