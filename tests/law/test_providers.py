"""What a provider is comes from its row. No code asks what it is called, or where it is."""

import ast
from collections.abc import Iterator

import pytest

from tests.law.house import Module, none, parse, product
from worker.models.table import PROVIDERS

ROWS = {
    "worker.models.table",  # the rows themselves
    "worker.models.kinds",  # the wires, of which some are called as providers are
    "worker.settings.models",  # the wires, as a row of the settings may name them
    "worker.settings.environment",  # the variables of the built-in rows
}
ASKING = {"startswith", "endswith", "removeprefix", "removesuffix", "get", "index", "find", "count"}


def _names_provider(text: object) -> bool:
    return isinstance(text, str) and (
        text in PROVIDERS or any(text.startswith(f"{name}/") for name in PROVIDERS)
    )


def _constants(node: ast.AST) -> Iterator[object]:
    """Constants of an expression, but of no call inside it."""
    if isinstance(node, ast.Constant):
        yield node.value
    elif isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Compare):
        for inner in ast.iter_child_nodes(node):
            yield from _constants(inner)


def _questions(tree: ast.AST) -> Iterator[tuple[int, list[object]]]:
    """Where a module compares or looks something up by constants, and by which."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield node.lineno, list(_constants(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ASKING:
                yield node.lineno, [each for given in node.args for each in _constants(given)]
        elif isinstance(node, ast.MatchValue):
            yield node.value.lineno, list(_constants(node.value))
        elif isinstance(node, ast.Dict) and len(node.keys) > 1:
            yield node.lineno, [key.value for key in node.keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Set):
            yield node.lineno, list(_constants(node))
        elif isinstance(node, ast.Subscript):
            yield node.lineno, list(_constants(node.slice))


def _find_questions(module: Module) -> Iterator[str]:
    for line, constants in _questions(module.tree):
        asked = [each for each in constants if _names_provider(each) or _is_server(each)]
        if asked and module.name not in ROWS:
            yield f"{module.path}:{line}: asks for {asked}"


def _is_server(text: object) -> bool:
    return isinstance(text, str) and "://api." in text


def test_no_code_asks_what_a_provider_is_called() -> None:
    none(
        [found for module in product() for found in _find_questions(module)],
        "make it a field of Provider",
    )


@pytest.mark.parametrize(
    "line",
    [
        "if who != 'openai-compatible': pass",
        "if who in {'gemini', 'x'}: pass",
        "name.startswith('openai-compatible/')",
        "name.startswith(('anthropic/', 'x/'))",
        "url.startswith('https://api.openai.com/')",
        "_OWN = {'anthropic', 'gemini'}",
        "_NAMES = {'gemini-vertex': 'gcp.vertex_ai', 'gemini': 'gcp.gemini'}",
        "special.get('openai')",
        "special['anthropic-bedrock']",
        "match who:\n    case 'anthropic': pass",
    ],
)
def test_the_law_finds(line: str) -> None:
    assert list(_find_questions(parse("worker/wiring/x.py", line)))
