"""A pipeline that GitLab could not create because its CI configuration is wrong."""

import re

from worker.core.failure.file_kinds import is_ci
from worker.core.failure.jobs import RuleMatch
from worker.core.failure.rules.base import Scene
from worker.core.finding import Verdict
from worker.core.text.untrusted import one_line

MOST = 400
"""The most characters of GitLab's message that are repeated."""


def explain_configuration_error(
    errors: str, scene: Scene, file: str = "", text: str = ""
) -> RuleMatch | None:
    """Explain the `yaml_errors` of a pipeline without jobs; None if there are none.

    `text` is the content of the configuration `file`, in which the line is looked for. If the
    change does not touch the configuration, the fault is in something that it includes or on the
    target branch: that needs an investigation.
    """
    message = one_line(errors, MOST)
    if not message:
        return None
    ours = any(map(is_ci, scene.changed_paths or ()))
    line = find_line(message, text) if file else 0
    where = f" (`{file}`, line {line})" if line else ""
    return RuleMatch(
        rule="configuration",
        verdict=(Verdict.CHANGE if ours else Verdict.UNKNOWN).value,
        cause=f"GitLab could not make the pipeline's jobs, for its configuration is wrong: "
        f"{message}{where}",
        to_do=f"Correct {f'line {line} of `{file}`' if line else 'the CI configuration'}; the "
        "pipeline editor checks it before you push.",
        certain=ours,
    )


def find_line(errors: str, text: str) -> int:
    """Return the number of the line that GitLab's message is about, 0 if it is not known.

    The message names a line, or a job and a key: `jobs:test config contains unknown keys: scrpt`.
    """
    lines = text[:LONGEST].split("\n")
    if (numbered := _NUMBERED.search(errors)) and int(numbered[1]) <= len(lines):
        return int(numbered[1])
    if not (named := _NAMED.search(errors)):
        return 0
    begins = [at for at, line in enumerate(lines) if _opens_key(line, named[1]) and line[:1] != " "]
    if not begins:
        return 0
    wanted = (named[2] or "").split(":")[-1] or (_KEYS.search(errors) or [""] * 2)[1]
    block = range(begins[0] + 1, _find_block_end(lines, begins[0]))
    inside = (at for at in block if wanted and _opens_key(lines[at].strip(), wanted))
    return next(inside, begins[0]) + 1


LONGEST = 200_000
"""The most characters of a configuration that are read."""

_NUMBERED = re.compile(r"\bat line (\d{1,6})\b")
_NAMED = re.compile(r"\bjobs:([^:]{1,255}?)((?::[\w-]{1,80}){0,4}) (?:config|job)\b")
_KEYS = re.compile(r"unknown keys?: ([\w.-]{1,80})")


def _opens_key(line: str, name: str) -> bool:
    """Whether a line opens the mapping `name`."""
    start = line.replace('"', "").replace("'", "")
    return start.startswith(f"{name}:")


def _find_block_end(lines: list[str], begin: int) -> int:
    """Return the index of the line after the block that line `begin` opens."""
    inside = (" ", "#", "\t", "-")
    rest = range(begin + 1, len(lines))
    return next((at for at in rest if lines[at] and not lines[at].startswith(inside)), len(lines))
