"""Reads YAML with the line of each value; what is wrong with it is told in plain words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from worker.errors import ConfigError

Step = str | int
"""A key of a mapping, or the number of an item of a list, from 0."""

MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands: in a line of a file (0: not a line's), or in a variable. `text` is how
    it is written there, if that is one word without quotes."""

    where: str
    line: int = 0
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place, which may be the whole."""

    where: str
    message: str
    place: tuple[Step, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.where}:{self.line}" if self.line else self.where
        return ": ".join(filter(None, (where, format_key(self.place), self.message)))


def format_key(place: Sequence[Step]) -> str:
    """Write a place as messages show it, such as `gitlab.projects[0]`."""
    key = ""
    for step in place:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else step
    return key


def find_spot(spots: Mapping[tuple[Step, ...], Spot], place: Sequence[Step], where: str) -> Spot:
    """Return the spot of a place, or else of what it is part of; at last, only `where`."""
    whole = tuple(place)
    parts = (whole[:size] for size in range(len(whole), 0, -1))
    return next((spots[each] for each in parts if each in spots), Spot(where))


def refuse(problems: Iterable[Problem]) -> None:
    """Raise ConfigError if there are problems: a line for each, in the order of the files' lines,
    and after them those of variables."""
    ordered = sorted(problems, key=lambda each: (each.where.startswith("$"), each.where, each.line))
    kept = dict.fromkeys(map(str, ordered))
    if not kept:
        return
    lines = list(kept)
    more = [f"and {len(lines) - MAX_PROBLEMS} problems more"] if lines[MAX_PROBLEMS:] else []
    raise ConfigError("\n".join([*lines[:MAX_PROBLEMS], *more]))


MAX_VALUES = 20_000
"""Values of one text. Without a cap, aliases of aliases could make billions of a few lines."""

_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")

_WORDS: tuple[tuple[str, str, bool], ...] = (
    (r"found character '\\t'", "a tab: indent with spaces", False),
    (r"found character '(.)'", "text that begins with {0} needs quotes", False),
    (r"found undefined alias '(.+)'", "", False),
    (
        r"expected alphabetic or numeric character",
        "text that begins with * or & needs quotes",
        True,
    ),
    (
        "mapping values are not allowed",
        "a colon that makes no sense here: text with a colon needs quotes, and the keys of one "
        "mapping the same indentation",
        False,
    ),
    (
        "sequence entries are not allowed",
        "a dash that makes no sense here: each item of a list has a line of its own",
        False,
    ),
    ("could not find expected ':'", "a key without a colon behind it", True),
    ("expected ',' or ']'", "the [ of this list is not closed, or text in it needs quotes", True),
    (
        "expected ',' or '}'",
        "the {{ of this mapping is not closed, or text in it needs quotes",
        True,
    ),
    ("unclosed '\\[' or '\\{'", "a [ or {{ above is not closed", False),
    ("unexpected end of stream", "the quote that opens here is not closed", True),
    ("unexpected document separator", "the quote that opens here is not closed", True),
    (
        r"unknown escape character '(.+)'",
        "\\{0} means nothing in double quotes: use single quotes",
        False,
    ),
    ("escape sequence of", "a wrong escape in double quotes: use single quotes", False),
    (
        "expected <block end>",
        "this fits nothing above: look at indentation, quotes and dashes here and in the line "
        "before",
        False,
    ),
    ("but found '<stream end>'", "the text ends too early: is a [, a {{ or a quote open?", False),
    ("expected the node content", "a value is missing before this", False),
    ("single document", "a second document begins here: expected one", False),
    ("tag", "text that begins with ! needs quotes", True),
)
"""What PyYAML says, as a pattern; our words; whether it is where the trouble began that counts."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a text says, and where: `spots` has the place of each key and item. `problems` are those
    in spite of which it could be read, such as keys that are there twice."""

    tree: Any = None
    spots: Mapping[tuple[Step, ...], Spot] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class Unreadable(ValueError):
    """A text that is no YAML; the problem says where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """YAML as people write it: 15:00 is no number to the base of 60."""


def read_yaml(text: str, where: str, above: int = 0) -> Document:
    """Read a text, which stands `above` lines below the beginning of the file `where`.

    All keys are text. An empty text is None. Raises Unreadable.
    """
    # The loader looks at its first characters as soon as it is made.
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        reader = _Reader(loader, where, above)
        tree = None if node is None else reader.read(node, (), ())
    except yaml.YAMLError as error:
        line, column, words = _explain(error, text)
        words = f"{words} (column {column + 1})"
        raise Unreadable(Problem(where, words, line=line + above + 1)) from error
    except RecursionError as error:
        raise Unreadable(Problem(where, "values within values, too many deep")) from error
    return Document(tree, reader.spots, tuple(reader.problems))


class _Reader:
    """Makes plain values of nodes, and keeps where they stand."""

    def __init__(self, loader: _Loader, where: str, above: int) -> None:
        self._loader, self._where, self._above = loader, where, above
        self.spots: dict[tuple[Step, ...], Spot] = {}
        self.problems: list[Problem] = []

    def read(self, node: Node, place: tuple[Step, ...], outer: tuple[Node, ...]) -> Any:
        """Return a node's value; `outer` are the nodes that it is part of."""
        if node in outer:
            raise _Wrong(node, "this anchor has itself inside")
        if len(self.spots) > MAX_VALUES:
            raise _Wrong(node, f"more than {MAX_VALUES} values")
        if isinstance(node, ScalarNode):
            if not node.style and _SEXAGESIMAL.fullmatch(node.value):
                return node.value
            try:
                value = self._loader.construct_object(node)
            except ValueError:  # such as the 31st of February
                return node.value
            return node.value if isinstance(value, datetime) else value
        if isinstance(node, SequenceNode):
            values = []
            for number, item in enumerate(node.value):
                self._mark((*place, number), item, item)
                values.append(self.read(item, (*place, number), (*outer, node)))
            return values
        return self._read_mapping(node, place, (*outer, node))

    def _read_mapping(
        self, node: Node, place: tuple[Step, ...], outer: tuple[Node, ...]
    ) -> dict[str, Any]:
        # Note what is there twice; of what `<<` brings along, a mapping's own keys win.
        lines: dict[str, Node] = {}
        for key, _ in node.value:
            line = self._find_line(key)
            if isinstance(key, ScalarNode) and lines.setdefault(key.value, key) is not key:
                first = self._find_line(lines[key.value])
                said = f"there already, in line {first}: leave one of them out"
                self.problems.append(Problem(self._where, said, (*place, key.value), line))
        if isinstance(node, MappingNode):
            self._loader.flatten_mapping(node)
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                raise _Wrong(key, "text that begins with { or [ needs quotes")
            self._mark((*place, key.value), key, item)
            values[key.value] = self.read(item, (*place, key.value), outer)
        return values

    def _mark(self, place: tuple[Step, ...], key: Node, item: Node) -> None:
        text = item.value if isinstance(item, ScalarNode) and not item.style else None
        self.spots[place] = Spot(self._where, self._find_line(key), text)

    def _find_line(self, node: Node) -> int:
        return int(node.start_mark.line) + self._above + 1


class _Wrong(yaml.MarkedYAMLError):
    """What YAML allows and we do not, in our words."""

    def __init__(self, node: Node, words: str) -> None:
        super().__init__(problem=words, problem_mark=node.start_mark)


def _explain(error: yaml.YAMLError, text: str) -> tuple[int, int, str]:
    """Return the line, the column (both from 0) and the words."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        at = getattr(error, "position", 0)
        before = text[:at].splitlines() or [""]
        character = getattr(error, "character", 0)
        words = f"a character that no YAML may have (U+{int(character):04X})"
        return len(before) - 1, len(before[-1]), words
    mark, said = error.problem_mark, str(error.problem)
    if isinstance(error, _Wrong):
        return mark.line, mark.column, said
    for pattern, words, is_begin in _WORDS:
        if found := re.search(pattern, f"{said} {error.context or ''}"):
            mark = (error.context_mark or mark) if is_begin else mark
            if not words:
                name = found[1]
                words = f"*{name} stands for &{name}, which is not above; text that begins with * "
                words += "needs quotes"
                return mark.line, mark.column, words
            return mark.line, mark.column, words.format(*found.groups())
    return mark.line, mark.column, "this is not YAML"


def explain_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Say in words why a file cannot be read."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8, at byte {error.start + 1}"
    return (error.strerror or "it cannot be opened").lower()
