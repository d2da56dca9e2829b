"""How much a reader of the product has to know, in figures. `python -m tests.law.figures` prints
them: the ones of the laws, and how large each room is.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.law.house import Function, Module, imports, length, product

SHORT = 5
"""Lines from which on a helper that is used once needs no excuse."""

SMALL = 40
"""Lines of code under which a file needs two files that import it."""


def measure(files: tuple[Module, ...]) -> dict[str, float]:
    """Return the figures of the house by their names."""
    lines = sum(file.lines for file in files)
    importers = count_importers(files)
    return {
        "files": len(files),
        "lines": lines,
        "public functions and classes": sum(len(list(list_public_names(file))) for file in files),
        "Protocols": sum(len(list(list_protocols(file))) for file in files),
        "private helpers used once in 1,000 lines": round(
            1000 * sum(len(list(list_helpers(file))) for file in files) / lines, 1
        ),
        "modules with one importer": sum(count == 1 for count in importers.values()),
    }


def count_importers(files: tuple[Module, ...]) -> Counter[str]:
    """Count for each module but packages how many other files import it."""
    known = {file.name for file in files}
    wanted = {file.name for file in files if not file.path.endswith("__init__.py")}
    return Counter(
        target
        for file in files
        for target in {target for _, target in imports(file, known)}
        if target in wanted and target != file.name
    )


def list_public_names(file: Module) -> Iterator[str]:
    """Yield the functions and classes at the top of a file that others may use."""
    for node in file.tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def list_protocols(file: Module) -> Iterator[ast.ClassDef]:
    """Yield the Protocols of a file."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases
        ):
            yield node


def list_helpers(file: Module) -> Iterator[Function]:
    """Yield the private functions and methods that their file names once besides defining them."""
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for node in ast.walk(file.tree):
        if isinstance(node, Function) and node.name.startswith("_") and used[node.name] == 1:
            yield node


def list_short_helpers(file: Module) -> Iterator[Function]:
    """Yield those of them whose definition, documentation apart, is shorter than `SHORT` lines."""
    for helper in list_helpers(file):
        if length(helper) < SHORT:
            yield helper


def count_code(file: Module) -> int:
    """Count the lines that are neither empty nor documentation nor a comment."""
    texts = {
        line
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        bool(text := line.strip()) and not text.startswith("#") and number not in texts
        for number, line in enumerate(file.source.splitlines(), 1)
    )


def main() -> None:
    """Print the figures."""
    files = product()
    for name, figure in measure(files).items():
        print(f"{figure:>8} {name}")
    print(f"{sum(len(list(list_short_helpers(file))) for file in files):>8} of them short")
    rooms = {".".join(file.name.split(".")[:2]) for file in files}
    for room in sorted(rooms):
        own = tuple(file for file in files if f"{file.name}.".startswith(f"{room}."))
        figures = measure(own)
        print(f"{room:24} " + "  ".join(f"{value:>7}" for value in figures.values()))


if __name__ == "__main__":
    main()
