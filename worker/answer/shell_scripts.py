"""Reads what a shell script runs from its text, well enough to name its last command. Pure.

The text is the model's, and no shell reads it here: what cannot be split stays one command.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_READ = 20_000
"""The most characters of a script that is read; nothing is known of a longer one."""

_HEREDOC = re.compile(r"<<(-?)[ \t]{0,8}(['\"]?)([A-Za-z_]\w{0,80})\2")
_TOKEN = re.compile(
    r"&&|\|\||\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|\d?[<>]&\d?|&>"
    r"|[^\\'\"`<>&|;()\n#]+|.",
    re.DOTALL,
)
_ENDS = frozenset({";", "&", "\n"})
_JOINS = frozenset({"&&", "||"})
_NOTHING = (("",),)
QUIET = frozenset(
    (
        *("awk", "base64", "cat", "cd", "chmod", "cmp", "column", "comm", "cp", "cut", "date"),
        *("diff", "dirname", "du", "echo", "egrep", "export", "fgrep", "file", "find", "git"),
        *("grep", "head", "jq", "less", "ln", "log", "ls", "md5sum", "mkdir", "mv", "nl", "od"),
        *("patch", "popd", "printf", "pushd", "pwd", "readlink", "realpath", "rg", "rm", "sed"),
        *("set", "sha256sum", "sort", "stat", "tail", "tar", "tee", "test", "touch", "tr", "tree"),
        *("true", "uniq", "unzip", "wc", "which", "xmllint", "xxd", "yq", "["),
    )
)
"""Commands that only read and write files, and run no code of a project."""


@dataclass(frozen=True, slots=True)
class CommandList:
    """Commands joined by "&&" and "||": those of each of its `pipes`, and what `joins` these."""

    pipes: tuple[tuple[str, ...], ...]
    joins: tuple[str, ...] = ()
    in_background: bool = False


def split_script(script: str) -> tuple[CommandList, ...]:
    """Return the command lists that a script runs one after the other, () if it is too long.

    The heredocs that it passes to them are left out.
    """
    if len(script) > MAX_READ:
        return ()
    kept, _ = _read_heredocs(script)
    return tuple(_split_lists("\n".join(kept)))


_WRITES = re.compile(r"(?:>{1,2}|\btee(?: -a)?)[ \t]{0,8}[\"']?([^\s\"'<>|&;()]{1,300})")


def list_written_files(script: str) -> list[str]:
    """Return the paths to which the script redirects something."""
    return _WRITES.findall(script[:MAX_READ])


def ends_heredocs(script: str) -> bool:
    """Whether each text that the script seems to pass to a command has an end."""
    return _read_heredocs(script)[1]


def _read_heredocs(script: str) -> tuple[list[str], bool]:
    """Return the lines outside of heredocs, and whether each heredoc has an end."""
    lines = script.split("\n")
    last = {line: number for number, line in enumerate(lines)}
    last |= {f"-{line.lstrip(chr(9))}": number for number, line in enumerate(lines)}
    kept: list[str] = []
    ends: list[str] = []
    complete = True
    for number, line in enumerate(lines):
        if ends:
            is_end = ends[0] in (line, f"-{line.lstrip(chr(9))}")
            ends = ends[1:] if is_end else ends
            continue
        kept.append(line)
        begun = [dash + word for dash, _, word in _HEREDOC.findall(line)]
        ends = [word for word in begun if last.get(word, -1) > number]
        complete = complete and len(ends) == len(begun)
    return kept, complete


def _split_lists(script: str) -> Iterator[CommandList]:
    pipes, parts, joins = list[tuple[str, ...]](), [""], list[str]()
    for token, separates in _read_tokens(script):
        if separates and token in _ENDS:
            yield from _make_list([*pipes, tuple(parts)], joins, token == "&")
            pipes, parts, joins = [], [""], []
        elif separates and token in _JOINS:
            pipes, parts = [*pipes, tuple(parts)], [""]
            joins.append(token)
        elif separates:
            parts.append("")
        else:
            parts[-1] += token
    yield from _make_list([*pipes, tuple(parts)], joins, False)


def _make_list(
    pipes: list[tuple[str, ...]], joins: list[str], in_background: bool
) -> Iterator[CommandList]:
    every = tuple(tuple(part.strip() for part in pipe) for pipe in pipes)
    if every != _NOTHING:
        yield CommandList(every, tuple(joins), in_background)


def _read_tokens(script: str) -> Iterator[tuple[str, bool]]:
    """Yield the tokens of the script, each with whether it separates commands.

    No token inside parentheses does; comments are left out.
    """
    depth, at, before = 0, 0, " "
    while found := _TOKEN.match(script, at):
        token, at = found[0], found.end()
        if token == "#" and (before.isspace() or before in _ENDS):
            end = script.find("\n", at)
            at = end if end >= 0 else len(script)
            continue
        depth = max(0, depth + (token == "(") - (token == ")"))
        before = token[-1]
        yield token, depth == 0 and (token in _ENDS or token in _JOINS or token == "|")
