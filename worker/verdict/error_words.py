"""The words of an error that may name files, split at slashes, dots and colons. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_WORDS = 600


@dataclass(frozen=True, slots=True)
class Word:
    """A word that may name a file; `parts` are the word split at slashes, dots or colons.

    `is_dotted`: it has no slashes. `is_rooted`: the parts seem to begin at the repository's root.
    `is_absolute`: it was written as an absolute path, `is_upward`: as one that begins with `..`.
    """

    text: str
    parts: tuple[str, ...]
    is_dotted: bool = False
    is_rooted: bool = False
    is_absolute: bool = False
    is_upward: bool = False


_TOKEN = re.compile(r"[\w@.+~$/\\-]+(?:::[\w.]+)*")
_FOREIGN = frozenset(
    {"site-packages", "dist-packages", "node_modules", ".cargo", ".m2", ".gradle", ".nuget"}
    | {"gems", ".rustup"}
)
_FOREIGN_TOPS = frozenset(
    {"usr", "lib", "lib64", "bin", "sbin", "opt", "root", "etc", "nix", "rustc"}
    | {"System", "Library"}
)


def index_words(text: str, project: str) -> Mapping[str, Sequence[Word]]:
    """Return the words by each of their parts, for fast look-up by thousands of changed files.

    `project` is the project's path: it shows which container paths are files of the project.
    """
    found: dict[str, list[Word]] = {}
    for word in _find_words(text, project):
        for part in {*word.parts, ".".join(word.parts)}:
            found.setdefault(part, []).append(word)
    return found


def is_foreign(path: str) -> bool:
    """Whether a path belongs to the system or an installed package, judged by its folders."""
    path = path.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".", "~")]
    top = parts[0] if path.startswith(("/", "~")) and parts else ""
    return bool(_FOREIGN & set(parts)) or top in _FOREIGN_TOPS or "pkg/mod/" in path


def split_path(path: str, project: str) -> tuple[tuple[str, ...], bool]:
    """Return the parts of a path that a tool wrote, and whether they begin at the repository's root
    for certain: then they are those after the project's own path."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in _NOWHERE]
    inside = _remove_project(parts, project.lower())
    return (tuple(parts), False) if inside is None else (inside, True)


_NOWHERE = frozenset({"", ".", "..", "~"})


def _find_words(text: str, project: str) -> Iterator[Word]:
    """Yield the words that may name a file, each once, at most `MAX_WORDS`."""
    seen: set[str] = set()
    before: tuple[str, ...] = ()
    for found in _TOKEN.finditer(text):
        token = found[0].rstrip(".-+$\\/")
        word = _make_word(token, project.lower()) if len(token) > 2 else None
        # In `com.x.Y.run(Y.java:12)` the class already says which Y.java is meant.
        framed = text[found.start() - 1 : found.start()] == "(" and token.split(".")[0] in before
        before = word.parts if word and word.is_dotted else ()
        if word is None or framed or token in seen:
            continue
        seen.add(token)
        yield word
        if len(seen) >= MAX_WORDS:
            return


def _make_word(token: str, project: str) -> Word | None:
    head = token.replace("\\", "/").split("::")[0]
    if "/" in head:
        return _make_path_word(token, head, project)
    named = head if "." in head else token.replace("::", ".")
    parts = tuple(part for part in named.replace("$", ".").split(".") if part)
    return Word(token, parts, is_dotted=True)


def _make_path_word(token: str, path: str, project: str) -> Word | None:
    absolute = path.startswith(("/", "~"))
    parts = [part for part in path.split("/") if part not in ("", ".", "~")]
    up = parts.count("..")
    parts = [part for part in parts if part != ".."]
    if is_foreign(path):
        return None
    inside = _remove_project(parts, project)
    if inside is not None:
        return Word(token, inside, is_rooted=True, is_absolute=absolute)
    return Word(
        token, tuple(parts), is_rooted=not absolute and not up, is_absolute=absolute,
        is_upward=path.startswith("../"),
    )  # fmt: skip


def _remove_project(parts: Sequence[str], project: str) -> tuple[str, ...] | None:
    """Return the parts after the project's own path, None if they don't contain that path."""
    home = tuple(project.split("/"))
    lower = [part.lower() for part in parts]
    for at in range(len(parts) - len(home), -1, -1):
        if tuple(lower[at : at + len(home)]) == home and at > 0:
            return tuple(parts[at + len(home) :])
    return None


def ends_with(whole: Sequence[str], end: Sequence[str]) -> bool:
    """Whether a path's parts end with those of another, which has at least one."""
    return 0 < len(end) <= len(whole) and tuple(whole[-len(end) :]) == tuple(end)
