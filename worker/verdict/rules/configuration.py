"""A pipeline that GitLab could not create because its CI configuration is wrong. Pure."""

import re
from collections.abc import Iterator, Sequence

from worker.safety.untrusted import one_line
from worker.verdict.diffs import is_ci
from worker.verdict.jobs import RuleMatch
from worker.verdict.rules.rule import Scene
from worker.verdict.rules.runner_log import quote
from worker.verdict.verdict import Verdict

_MOST = 400
"""The most characters of GitLab's message that are repeated."""


def explain_configuration_error(
    errors: str, scene: Scene, file: str = "", text: str = ""
) -> RuleMatch | None:
    """Explain the `yaml_errors` of a pipeline without jobs; None if there are none.

    `text` is the content of the configuration `file`, in which the line is looked for. The fault is
    the change's only if it touches the configuration, and the line, where one is found, is one that
    it adds. Else it may be in something that the configuration includes, as that of a job that is
    not in the `text`, on the target branch, or in somebody's rights: that needs an investigation.
    """
    message = one_line(errors, _MOST)
    if not message:
        return None
    line = _find_line(message, text) if file else 0
    included = bool(file) and not line and bool(_NAMED.search(message))
    culprit = text.split("\n")[line - 1] if line else ""
    changed = scene.changed_paths or ()
    edited = next(filter(is_ci, changed), "")
    local = _LOCAL.search(message)
    named = local[1] if local else culprit.strip()
    if included or _ELSEWHERE.search(message):
        ours = False
    elif local and local[1].lstrip("/") in changed:
        ours = True
    else:
        # A broken syntax shows itself where the parser gives up, which need not be where it broke.
        numbered = bool(_NUMBERED.search(message))
        ours = bool(edited) and (not named or numbered or scene.may_add(named))
    place = f"`{file}`, line {line}" if line else f"this change edits {quote(edited)}"
    return RuleMatch(
        rule="configuration",
        verdict=(Verdict.CHANGE if ours else Verdict.UNKNOWN).value,
        cause="GitLab could not make the pipeline's jobs, for its configuration is wrong: "
        f"{message}{f' ({place})' if line or edited else ''}",
        to_do=f"Correct {f'line {line} of `{file}`' if line else 'the CI configuration'}; the "
        "pipeline editor checks it before you push."
        if ours or line
        else "See whether the file, project or right that GitLab means is there.",
        certain=ours,
    )


_ELSEWHERE = re.compile(
    r"^(?:Project|Component|Remote file|Template file|Reference) |access denied|permission"
    r"|\b(?:not authorized|timed out|timeout|quota|limit|maximum|verification)\b"
    r"|could not be fetched|HTTP code|\bdownstream\b",
    re.IGNORECASE,
)
"""GitLab's words for what lies outside the project, or in its rights and limits."""

_LOCAL = re.compile(r"[Ll]ocal file [`'\"]?([^`'\" ]{1,255})")


def _find_line(errors: str, text: str) -> int:
    """Return the number of the line that GitLab's message is about, 0 if it is not known.

    The message names a line; or a file that is included; or a job and what is wrong with it, as in
    `jobs:test config contains unknown keys: scrpt` and `'test' job needs 'biuld' job`.
    """
    lines = text[:_LONGEST].split("\n")
    if local := _LOCAL.search(errors):
        return next((at + 1 for at, line in enumerate(lines) if local[1] in line), 0)
    numbered = _NUMBERED.search(errors)
    if numbered and not _OTHER_FILE.search(errors) and int(numbered[1]) <= len(lines):
        return int(numbered[1])
    for named in filter(None, (_NAMED.search(errors), _NAMED_FIRST.search(errors))):
        path = named[1].split(":")
        if (begin := _find_job(lines, path)) >= 0:
            block = range(begin + 1, _find_block_end(lines, begin))
            return next(_find_inside(lines, block, errors, path), begin) + 1
    return 0


_LONGEST = 200_000
"""The most characters of a configuration that are read."""

_NUMBERED = re.compile(r"\bat line (\d{1,6})\b")
_OTHER_FILE = re.compile(r"[Ii]ncluded file|[\w/-]{1,200}/[\w.-]{1,100}\.ya?ml")
_NAMED = re.compile(
    r"\bjobs:(\S.{0,255}?)(?: (?:config|job|has|needs|rules?|if|should|dependencies)\b|$)"
)
_NAMED_FIRST = re.compile(
    r"^['\"`]?(.{1,255}?)['\"`]?(?: job\b|: (?:unknown keys in|circular|undefined)\b)"
)
_KEYS = re.compile(r"unknown keys?: ([\w.-]{1,80})")
_WORDS = re.compile(
    r"\b(?:stage|need|need:|dependency:) ['\"`]?([^\s'\"`,;]{1,255})"
    r"|`extends` \(([^)\s]{1,255})|\bneeds ['\"`]([^'\"`]{1,255})"
)
"""The names that a message about a keyword calls wrong."""

_KEYWORDS = {"need": "needs", "dependency": "dependencies"}
_KEYWORD = re.compile(r"\b(needs?|rules|extends|stage|parallel|dependency|dependencies)\b")
_MATRIX = re.compile(r"^(.{1,255}?)(?:: \[.{0,1000}\]| \d{1,4}/\d{1,4})$")
"""What the jobs of a matrix, or several of one name, are called: the configuration's name first."""


def _find_job(lines: Sequence[str], path: list[str]) -> int:
    """Return the index of the line that opens the job that a path of keys begins with, and shorten
    the path by its name, which may hold colons; -1 if there is none."""
    for size in range(len(path), 0, -1):
        name = ":".join(path[:size]).strip("'\"` ")
        varied = _MATRIX.match(name)
        for each in (name, varied[1]) if varied else (name,):
            opening = (at for at, line in enumerate(lines) if _opens_key(line, each))
            if (begin := next(opening, -1)) >= 0:
                del path[:size]
                return begin
    return -1


def _find_inside(
    lines: Sequence[str], block: range, errors: str, path: Sequence[str]
) -> Iterator[int]:
    """Yield the indices of the lines of a job's block that a message is about, the surest first:
    with an unknown key, with a wrong name below the keyword, and the keyword's own."""
    unknown = _KEYS.search(errors)
    yield from _find_keys(lines, block, [unknown[1]] if unknown else [])
    keywords = [_KEYWORDS.get(each, each) for each in _KEYWORD.findall(errors)]
    words = [word for found in _WORDS.findall(errors) for word in found if word]
    names = [varied[1] if (varied := _MATRIX.match(word)) else word for word in words]
    mentions = [re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])") for name in names]
    for at in _find_keys(lines, block, keywords):
        below = range(at, _find_block_end(lines, at, _measure_indent(lines[at])))
        yield from (at for at in below if any(each.search(lines[at]) for each in mentions))
    yield from _find_keys(lines, block, [*reversed(path), *keywords])


def _find_keys(lines: Sequence[str], block: range, keys: Sequence[str]) -> Iterator[int]:
    return (at for key in keys for at in block if _opens_key(lines[at].lstrip(" -"), key))


def _opens_key(line: str, name: str) -> bool:
    """Whether a line opens the mapping `name`."""
    start = line.replace('"', "").replace("'", "")
    return start.startswith(f"{name}:")


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _find_block_end(lines: Sequence[str], begin: int, indent: int = 0) -> int:
    """Return the index of the line after the block that line `begin` opens, at this `indent`."""
    for at in range(begin + 1, len(lines)):
        text = lines[at].lstrip(" ")
        depth = _measure_indent(lines[at])
        item = text.startswith("-") and depth == indent
        if text and not text.startswith("#") and depth <= indent and not item:
            return at
    return len(lines)
