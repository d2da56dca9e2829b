"""Reads what a comment asks of the bot: a command, a question, or nothing. Pure.

A command is a line `/sandpiper NAME …`, or a line that is nothing but `@bot NAME …`. GitLab does
not change lines that begin with an unknown slash command. Only top-level paragraphs count as
the writer's own words: quoted, folded or hidden text and code are ignored.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from markdown_it import MarkdownIt
from markdown_it.token import Token

from worker.settings.models import TIERS
from worker.settings.playbook import COMMAND_NAMES, COMMANDS

PREFIX = "/sandpiper"
MAX_TEXT = 20_000
"""Only this many characters of a comment are read."""

_SLASH = re.compile(r"[ ]{0,3}/sandpiper(?![^\s])[ \t]*(.*)", re.IGNORECASE)
_MAX_ARGUMENT = 200
_WITH_WORDS = ("model", "tier")

# What GitLab reads besides CommonMark: front matter, ">>>" quotes, footnotes, formulas.
_FRONT_MATTER = re.compile(
    r"\s*^(---|\+\+\+|;;;)[^\n]*\n(?:(?!\1[ \t]*$).*\n)*+\1[ \t]*$", re.MULTILINE
)
_QUOTE_FENCE = re.compile(r"[ ]{0,3}(>{3,})[ \t]*")
_SET_APART = re.compile(r"\\\[\^|\$\$")

_HTML = re.compile(
    r"""<!--(?: -?> | (?: (?!--!?>) . )*+ (?:--!?>)? )
    | <(?P<raw>script|style|textarea|title)\b (?: (?!</(?P=raw)) . )*+
    | <(?P<closes>/?)(?P<name>[a-z][a-z0-9-]*+)
      (?: [^<>"'] | "[^"]*+" | '[^']*+' )*+ (?P<end>>)?""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ENCLOSING = frozenset(
    (
        *("blockquote", "q", "cite", "pre", "code", "samp", "kbd", "tt", "var", "del", "s"),
        *("strike", "details", "summary", "table", "caption", "thead", "tbody", "tfoot", "tr"),
        *("td", "th", "ul", "ol", "li", "dl", "dt", "dd", "div", "figure", "script", "style"),
        *("template", "textarea", "title", "noscript", "iframe", "svg", "math"),
    )
)
"""Elements whose text is quoted, folded, struck out, hidden or set apart."""


@dataclass(frozen=True, slots=True)
class Command:
    """A built-in or workflow command; if `name` is "unknown", `argument` is what was written."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The bot is mentioned in a text that is no command."""


CommentRequest = Command | Question


def may_address_bot(text: str) -> bool:
    """Whether `text` may be for the bot: a cheap check that does not need the bot's name."""
    head = text[:MAX_TEXT]
    return "@" in head or PREFIX in head.lower()


def parse_comment(text: str, bot: str, more: Collection[str] = ()) -> CommentRequest | None:
    """What `text` asks of the bot whose user name is `bot`, or None; the first command wins.

    `bot` is "" if nobody can mention it. `more` are the names of workflow commands.
    """
    lines = list(_list_spoken_lines(text[:MAX_TEXT]))
    # A full stop after the name may end the sentence or be part of a longer user name. GitLab takes
    # no escaped name for a mention.
    name = rf"(?<![\w@/.\\-])@{re.escape(bot)}(?![\w-]|\.\w)"
    mention = re.compile(name, re.IGNORECASE) if bot else None
    for line in lines:
        if command := _read_line(line, mention, more):
            return command
    if mention and any(mention.search(line) for line in lines):
        return Question()
    return None


def list_commands(more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The commands as a Markdown list; `more` says what each workflow command does."""
    listed = {**COMMANDS, **more, **COMMANDS}
    return "\n".join(f"- `{PREFIX} {name}`: {does}" for name, does in listed.items())


def _read_line(line: str, mention: re.Pattern[str] | None, more: Collection[str]) -> Command | None:
    if slash := _SLASH.fullmatch(line):
        named = _read_command(slash[1].split(), more)
        return named or Command("unknown", slash[1].strip()[:_MAX_ARGUMENT])
    line = line.strip()
    if mention and (bot := mention.match(line)):
        words = line[bot.end() :].strip().lstrip(":,").rstrip(".!?").split()
        return _read_command(words, more, strict=True)
    return None


def _read_command(
    words: list[str], more: Collection[str], *, strict: bool = False
) -> Command | None:
    """The command in `words`; a bare `/sandpiper` asks for help, a bare mention for nothing."""
    if not words:
        return None if strict else Command("help")
    name, rest = words[0].lower(), words[1:]
    if name in _WITH_WORDS:
        argument = " ".join(rest)[:_MAX_ARGUMENT]
        return Command(name, argument) if _takes_words(name, rest, strict=strict) else None
    if not (name in COMMAND_NAMES or name in more) or rest:
        return None
    return Command(name)


def _takes_words(name: str, words: Sequence[str], *, strict: bool) -> bool:
    """Whether the words after `tier` or `model` are valid arguments of that command.

    `strict` is for a mention, after which "tier" or "model" may begin an ordinary sentence.
    """
    lowered = [word.lower() for word in words]
    if lowered[-1:] == ["project"]:
        lowered = lowered[:-1]
    if not lowered:
        return not strict
    if name == "tier":
        is_known = not strict or lowered[0] in (*TIERS, "reset")
        return is_known and lowered[1:] in ([], ["force"])
    if lowered[0] not in TIERS:
        return len(lowered) == 1
    return len(lowered) <= 2 or (len(lowered) == 3 and lowered[1] == "reasoning")


def _list_spoken_lines(text: str) -> Iterator[str]:
    """The lines of the top-level paragraphs, with a space for each span of code."""
    # CommonMark would take a footnote for the definition of a link.
    text = re.sub(r"\r\n?", "\n", text).replace("[^", "\\[^")
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :]
    lines = text.split("\n")
    quoted = 0  # the length of the ">>>" fence that is open
    enclosing: Counter[str] = Counter()
    tokens = _parser().parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "blockquote_open" and token.level == 0 and token.map:
            for mark in filter(None, map(_QUOTE_FENCE.fullmatch, lines[slice(*token.map)])):
                if not quoted:
                    quoted = len(mark[1])
                elif len(mark[1]) >= quoted:
                    quoted = 0
        elif token.type == "html_block":
            _enclose(enclosing, token.content)
        elif token.type == "inline":
            spoken = _list_lines(token.children or (), enclosing)
            is_top_level = before and before.type == "paragraph_open" and before.level == 0
            if is_top_level and not quoted and not any(map(_SET_APART.match, spoken)):
                yield from spoken


@cache
def _parser() -> MarkdownIt:
    # Escapes stay separate from the text, because escaped text is not meant as a command.
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return parser.disable("text_join")


def _list_lines(children: Sequence[Token], enclosing: Counter[str]) -> list[str]:
    """The lines of a paragraph, without its code and what HTML encloses.

    Other markup is replaced by a star, so that no line begins inside it.
    """
    text = ""
    for token in children:
        if token.type == "html_inline":
            _enclose(enclosing, token.content)
        elif token.type.endswith("break"):
            text += " " if token.level else "\n"
        elif not +enclosing:
            shown = {"text": token.content, "text_special": token.markup, "code_inline": " "}
            text += shown.get(token.type, "*")
    return text.split("\n")


def _enclose(enclosing: Counter[str], html: str) -> None:
    """Count the elements that `html` opens and closes. An unfinished tag hides what follows."""
    for tag in _HTML.finditer(html):
        name = (tag["raw"] or tag["name"] or "").lower()
        if tag["name"] and not tag["end"]:
            enclosing["<"] += 1
        elif name in _ENCLOSING:
            enclosing[name] = max(0, enclosing[name] + (-1 if tag["closes"] else 1))
