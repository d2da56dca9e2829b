"""Quoted text as Markdown code, whatever it holds."""

import re

from worker.core.text.untrusted import visible

_LANGUAGES = frozenset(
    re.findall(
        r"\S+",
        """
        text log bash sh shell console powershell python py ruby rb perl php lua r go rust rs c cpp
        cxx h cs csharp java kotlin scala groovy swift objc js javascript jsx ts typescript tsx json
        yaml yml toml ini xml html css scss sql diff patch dockerfile makefile make cmake hcl
        terraform nix haskell elixir erlang clojure ocaml dart zig asm
        """,
    )
)
_MARKER = re.compile(r"<!(-+\s*sandpiper)", re.IGNORECASE)
_INCLUDE = re.compile(r"::include", re.IGNORECASE)


def code_line(text: str) -> str:
    """`text` as one span of code on one line; "" for nothing."""
    line = _defused(visible(text).replace("\n", " ")).strip()
    if not line:
        return ""
    fence = "`" * (_longest(line, "`") + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def code_block(text: str, info: str = "", indent: int = 1) -> str:
    """`text` as a block of code; an `info` that names no programming language becomes "text".

    The whole block is indented by `indent` columns (1 to 3), which Markdown takes off again: so no
    line of it begins with "/", where older GitLabs would look for a quick action.
    """
    lines = _defused(visible(text)).split("\n")
    fence = "`" * max(3, *(_longest(line, "`") + 1 for line in lines))
    language = info.strip().lower()
    opening = fence + (language if language in _LANGUAGES else "text")
    return "\n".join((" " * indent + line).rstrip() for line in (opening, *lines, fence))


def suggestion_block(text: str, above: int, below: int) -> str:
    """GitLab's block that replaces the commented line, `above` lines before and `below` lines after
    it by `text`.

    "" for a text that could not stand there unchanged: nobody may apply what he did not read.
    """
    if _defused(visible(text)) != text or any(line != line.rstrip() for line in text.split("\n")):
        return ""
    first, _, rest = code_block(text).partition("\n")
    return f"{first.removesuffix('text')}suggestion:-{above}+{below}\n{rest}"


def _defused(text: str) -> str:
    """What a reader of raw text (our own marker's, GitLab's include filter) would take for his."""
    return _INCLUDE.sub(": :include", _MARKER.sub(r"<! \1", text))


def _longest(text: str, character: str) -> int:
    return max(map(len, re.findall(re.escape(character) + "+", text)), default=0)
