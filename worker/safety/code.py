"""Writes any text as Markdown code."""

import re

from worker.safety.untrusted import visible

_LANGUAGE_NAMES = """
    text log bash sh shell console powershell python py ruby rb perl php lua r go rust rs c cpp
    cxx h cs csharp java kotlin scala groovy swift objc js javascript jsx ts typescript tsx json
    yaml yml toml ini xml html css scss sql diff patch dockerfile makefile make cmake hcl
    terraform nix haskell elixir erlang clojure ocaml dart zig asm
"""
_LANGUAGES = frozenset(_LANGUAGE_NAMES.split())
_MARKER = re.compile(r"<!(-+\s*sandpiper)", re.IGNORECASE)
_INCLUDE = re.compile(r"::include", re.IGNORECASE)


def write_code_line(text: str) -> str:
    """Return `text` as one code span on one line; "" for an empty text."""
    line = _break_markers(visible(text).replace("\n", " ")).strip()
    if not line:
        return ""
    fence = "`" * (_measure_longest_run(line) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def write_code_block(text: str, info: str = "", indent: int = 1) -> str:
    """Return `text` as a code block; an `info` that names no programming language becomes "text".

    The whole block is indented by `indent` columns (1 to 3), which Markdown removes again: so no
    line of it begins with "/", where older versions of GitLab look for a quick action.
    """
    lines = _break_markers(visible(text)).split("\n")
    fence = "`" * max(3, *(_measure_longest_run(line) + 1 for line in lines))
    language = info.strip().lower()
    opening = fence + (language if language in _LANGUAGES else "text")
    return "\n".join((" " * indent + line).rstrip() for line in (opening, *lines, fence))


def write_suggestion_block(text: str, above: int, below: int) -> str:
    """Return GitLab's suggestion block, which replaces the commented line, `above` lines before it
    and `below` lines after it with `text`.

    Return "" if `text` could not be shown unchanged: nobody should apply what they cannot read.
    """
    if _break_markers(visible(text)) != text or any(
        line != line.rstrip() for line in text.split("\n")
    ):
        return ""
    first, _, rest = write_code_block(text).partition("\n")
    return f"{first.removesuffix('text')}suggestion:-{above}+{below}\n{rest}"


def _break_markers(text: str) -> str:
    """Break up what a parser of the raw text would act on: our own marker, GitLab's include."""
    return _INCLUDE.sub(": :include", _MARKER.sub(r"<! \1", text))


def _measure_longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
