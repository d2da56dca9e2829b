"""The sections of an answer in Markdown, whatever shape its headings have."""

import re
from collections.abc import Iterator, Mapping

_NAMES = (
    "verdict|failed|cause|root cause|evidence|missing|missing evidence|what is missing"
    "|keep it next time|next time|what to do|next steps|details"
)
_ALIASES = {
    "root cause": "cause",
    "next steps": "what to do",
    "missing evidence": "missing",
    "what is missing": "missing",
    "next time": "keep it next time",
}
_HEADINGS = tuple(
    re.compile(rf"[ ]{{0,3}}(?:{form})", re.IGNORECASE)
    for form in (
        rf"\#{{1,6}}[ \t]*(?:\*\*)?({_NAMES})(?:\*\*)?[ \t]*(?:\#*[ \t]*$|:(?:\*\*)?(.*))",
        rf"(?:\*\*|__)({_NAMES})[ \t]*"
        r"(?:(?::(?:\*\*|__)|(?:\*\*|__)[ \t]*:)(.*)|(?:\*\*|__)[ \t]*$)",
        rf"({_NAMES})[ \t]*:(.*)",
    )
)
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


def split_sections(text: str) -> dict[str, str]:
    """Return the text of each section by its name; "" names the text before the first section."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line, heading in _find_headings(text):
        if heading:
            name = _ALIASES.get(heading[1].lower(), heading[1].lower())
            line = (heading[2] or "").strip()
        sections.setdefault(name, []).append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def join_sections(sections: Mapping[str, str]) -> str:
    """Return the text that `split_sections` splits into these sections."""
    titles = {name: f"## {name.capitalize()}\n" for name in sections if name}
    return "\n\n".join(titles.get(name, "") + text for name, text in sections.items() if text)


def split_lead(text: str) -> tuple[str, str]:
    """Return the text before the first section, and the rest of the text."""
    lines = list(_find_headings(text))
    first = next((number for number, (_, start) in enumerate(lines) if start), len(lines))
    lead, rest = ("\n".join(line for line, _ in part) for part in (lines[:first], lines[first:]))
    return lead.strip(), rest


def _find_headings(text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield the lines, each with its match as a heading if it is one."""
    lines = text.split("\n")
    inside = find_fenced_lines(lines)
    heading = next((form for form in _HEADINGS if any(map(form.match, lines))), None)
    for number, line in enumerate(lines):
        yield line, heading.match(line) if heading and number not in inside else None


def find_fenced_lines(lines: list[str]) -> set[int]:
    """Return the indices of the lines in closed fences, including the fence marks."""
    inside: set[int] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opened is None:
            opened = (number, fence[1]) if fence else None
        elif fence and fence[1].startswith(opened[1]) and not fence[2].strip():
            inside.update(range(opened[0], number + 1))
            opened = None
    return inside
