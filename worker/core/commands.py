"""What a comment asks of the bot: a command, a question, or nothing. Pure.

A command is a line `/sandpiper NAME …`, or a line that is nothing but `@bot NAME …`. GitLab leaves
lines with a slash it does not know alone (wire-gitlab 5). Code and quotes are somebody else's
words: nothing in them is addressed to us.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PREFIX = "/sandpiper"
MAX_TEXT = 20_000
"""Characters of a comment that are looked at."""

NAMES = {
    "analyze": "look at the newest failed pipeline of this merge request",
    "help": "show this list",
    "status": "say what is running or was found",
    "stop": "end what is running, with what was found so far",
    "model NAME": "look at the failure again with another model",
    "forget": "delete what is stored of this merge request's conversations",
}
"""How each command is written, and what it does."""

_KNOWN = frozenset(name.partition(" ")[0] for name in NAMES)
_SLASH = re.compile(r"[ ]{0,3}/sandpiper(?![^\s])[ \t]*(.*)", re.IGNORECASE)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_QUOTED = re.compile(r"[ ]{0,3}>| {4}|\t")
_TICKS = re.compile(r"`+")
_MAX_ARGUMENT = 200


@dataclass(frozen=True, slots=True)
class Command:
    """One of NAMES, or "unknown" with what was written in `argument`."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The bot is mentioned in a text that is no command."""


Asked = Command | Question


def addressed(text: str) -> bool:
    """Whether `text` may be for the bot, told cheaply and without its name."""
    head = text[:MAX_TEXT]
    return "@" in head or PREFIX in head.lower()


def parse(text: str, bot: str) -> Asked | None:
    """What `text` asks of the bot of user name `bot`, or None; the first command wins.

    `bot` is "" where nobody can mention it.
    """
    lines = list(_spoken(text[:MAX_TEXT]))
    mention = _mention(bot) if bot else None
    for line in lines:
        if found := _command(line, mention):
            return found
    if mention and any(mention.search(line) for line in lines):
        return Question()
    return None


def usage() -> str:
    """The commands as a Markdown list."""
    return "\n".join(f"- `{PREFIX} {name}`: {does}" for name, does in NAMES.items())


def _mention(bot: str) -> re.Pattern[str]:
    # A full stop may end the sentence as well as belong to a longer user name.
    return re.compile(rf"(?<![\w@/.-])@{re.escape(bot)}(?![\w-]|\.\w)", re.IGNORECASE)


def _command(line: str, mention: re.Pattern[str] | None) -> Command | None:
    if slash := _SLASH.fullmatch(line):
        return _named(slash[1].split()) or Command("unknown", slash[1].strip()[:_MAX_ARGUMENT])
    begun = mention.match(line.strip()) if mention else None
    return _named(_words(line.strip()[begun.end() :]), strict=True) if begun else None


def _words(rest: str) -> list[str]:
    return rest.strip().lstrip(":,").rstrip(".!?").split()


def _named(words: list[str], *, strict: bool = False) -> Command | None:
    """The command of `words`; a bare `/sandpiper` asks for help, a bare mention for nothing."""
    if not words:
        return None if strict else Command("help")
    name, rest = words[0].lower(), words[1:]
    if name not in _KNOWN or len(rest) > (name == "model"):
        return None
    if name == "model":
        return Command("model", rest[0][:_MAX_ARGUMENT]) if rest else None
    return Command(name)


def _spoken(text: str) -> Iterator[str]:
    """The lines that are the writer's own words, without code."""
    fence = ""
    for line in re.split(r"\r\n?|\n", text):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        elif not _QUOTED.match(line):
            yield _without_code(line)


def _without_code(line: str) -> str:
    """`line` with each code span as one blank; linear, whatever the runs of backticks."""
    runs = list(_TICKS.finditer(line))
    last = {len(run[0]): at for at, run in enumerate(runs)}
    kept, start, at = [], 0, 0
    while at < len(runs):
        size = len(runs[at][0])
        if last[size] == at:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(runs)) if len(runs[i][0]) == size)
        kept.append(line[start : runs[at].start()])
        start, at = runs[end].end(), end + 1
    return " ".join([*kept, line[start:]])
