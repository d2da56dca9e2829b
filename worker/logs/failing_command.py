"""Which command of a job's script ended it, which lines of the log it wrote, and what it was doing
when the job reached its time limit. Pure.

The runner prints each line of a script as `$ command` before it runs it, and stops at the first one
that fails: so the last one printed is the one that failed. Before the script, and after it, only
the runner writes (services' health checks, caches, artifacts), or an `after_script`, whose commands
end no job.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.logs.normal_form import drop_number, normalise_places

_LONGEST = 400
"""The most characters of a line that are read."""


@dataclass(frozen=True, slots=True)
class FailingCommand:
    """The last command of a script, and the numbers of the first and last line of its output; a
    silent one ends before it begins.

    `text` is the command as printed, "" if the log prints none: then the output is the whole
    script's. `in_script` is False if the script never began: then `text` is the runner's last
    stage, such as `Getting source from Git repository`, and the output that of the stage.
    """

    text: str
    first: int
    last: int
    in_script: bool = True

    @property
    def name(self) -> str:
        """The programs that the command runs, without their arguments: `npm test`, `cd, make`."""
        if not self.in_script:
            return self.text
        parts = _BETWEEN.split(self.text[:_LONGEST])[:_COMMANDS]
        return ", ".join(filter(None, map(_name_program, parts)))

    def select(self, lines: Sequence[str]) -> Sequence[str]:
        """Return the lines of the command's output; `lines` are all lines of the log."""
        return lines[self.first - 1 : self.last]


def find_failing_command(lines: Sequence[str]) -> FailingCommand:
    """Return the command that ended the job of a cleaned log; the whole log if no runner of
    GitLab's has written it, as others go on after a command that fails. Takes time in proportion to
    the number of lines."""
    begin = next((at for at, line in enumerate(lines) if _BEGINS.match(line)), -1)
    headed = any(_RUNNER in line for line in lines[:_HEAD])
    if begin < 0 and not headed and not any(_TAIL[0].match(line) for line in lines[-_HEAD:]):
        return FailingCommand("", 1, len(lines))
    if begin < 0 and headed:
        begin = next((at for at in range(len(lines)) if _is_echo(lines, at)), -1) - 1
        if begin < -1:
            return _find_last_stage(lines)
    return _find_last_echoed(lines, begin + 1)


def _find_last_echoed(lines: Sequence[str], begin: int) -> FailingCommand:
    """Return the last command of the script that begins at an index."""
    end = _find_end(lines, begin)
    echoes = [at for at in range(begin, end) if _is_echo(lines, at)]
    if not echoes:
        return FailingCommand("", begin + 1, end)
    at = _find_stored_exit(lines, echoes)
    text, after = lines[at][2:], next((each for each in echoes if each > at), end)
    found = FailingCommand(_COLLAPSED.sub("", text).strip(), at + 2, after)
    return _find_traced(lines, found) or found


def keep_last_command(lines: Sequence[str]) -> list[str]:
    """Return those lines of an excerpt, with or without their numbers, that the failing command has
    written; all lines if the excerpt has no command."""
    found = _find_last_echoed([*map(drop_number, lines)], 0)
    return [*found.select(lines)] if found.text else [*lines]


_HEAD = 20
_RUNNER = "Running with gitlab-runner"
_BEGINS = re.compile(r'Executing "\w{1,40}" stage of the job script')
_COLLAPSED = re.compile(r" # collapsed multi-line command$")

# ------------------------------------------------------------------------ where the script ends

_TAIL = (
    re.compile(r"(?:ERROR|FATAL): Job failed\b|Job succeeded$"),
    re.compile(r"Cleaning up (?:project directory and )?file based variables"),
    re.compile(r"Uploading artifacts for \w{1,12} job"),
    re.compile(r"Saving cache for \w{1,12} job"),
    re.compile(r"Running after[_ ]script\b"),
    re.compile(r"WARNING: (?:(?:step_)?script|step_\w{1,20}) (?:could not run to|canceled)"),
)
"""What the runner writes after a script, the last first. A program may print the log of another
job, so of each the last line counts."""


def _find_end(lines: Sequence[str], begin: int) -> int:
    """Return the index after the last line of the script, which begins at index `begin`."""
    last: dict[int, list[int]] = {}
    for at in range(begin, len(lines)):
        line = lines[at]
        if line[:1] in _TAIL_LETTERS:
            for order, pattern in enumerate(_TAIL):
                if pattern.match(line):
                    last.setdefault(order, []).append(at)
    end = len(lines)
    for order in range(len(_TAIL)):
        end = max((at for at in last.get(order, ()) if at < end), default=end)
    while end > begin and _TAIL[_AFTER_SCRIPT].match(lines[end - 1]):  # it says so twice
        end -= 1
    return end


_AFTER_SCRIPT = 4
_TAIL_LETTERS = frozenset("EFJCUSRW")

_STAGE = re.compile(
    r'(?:Preparing (?:the ".{1,60}" executor|environment)|Getting source from Git repository'
    r"|Restoring cache|Downloading artifacts)$"
)
_SERVICES_END = re.compile(r"\*{9}$")
_PLAIN_TAIL = re.compile(
    r"Cleaning up (?:project directory and )?file based variables|Uploading artifacts\b"
    r"|ERROR: Job failed: (?:exit (?:code|status)|command terminated with exit code) \d{1,4}\s*$"
)


def _find_last_stage(lines: Sequence[str]) -> FailingCommand:
    """Return the runner's last stage as a command, for a job whose script never began. What the
    runner says of the failure is part of it, the logs of services are not."""
    end = len(lines)
    while end and _PLAIN_TAIL.match(lines[end - 1]):
        end -= 1
    at = next((at for at in range(end - 1, -1, -1) if _STAGE.match(lines[at])), -1)
    text = lines[at].strip() if at >= 0 else ""
    services = (each for each in range(end - 1, at, -1) if _SERVICES_END.match(lines[each]))
    return FailingCommand(text, next(services, at) + 2, end, in_script=False)


# -------------------------------------------------------------------------- which line is a command

_RUNS_SCRIPT = re.compile(r"yarn run v\d")
_ADVISES = re.compile(
    r"(?:.{0,200}[\s(])?(?i:run|try|use|using|by|with|command|example|fix|e\.g\.)\b.{0,40}:$"
)


def _is_echo(lines: Sequence[str], at: int) -> bool:
    """Whether a line is the runner's echo of a command, not a program's: what a package manager
    runs in turn, or an example below advice that ends in a colon."""
    line = lines[at]
    if not line.startswith("$ ") or not line[2:3].strip():
        return False
    before = lines[at - 1][:_LONGEST].rstrip() if at else ""
    if _RUNS_SCRIPT.match(before):
        return False
    if before.startswith("$ ") or not _ADVISES.match(before):
        return True
    return at > 1 and lines[at - 2].startswith("$ ") and before in lines[at - 2]


_EXITS = re.compile(
    r"(?:exit|\(exit|return|test|\[{1,2}) {1,3}[\"']?\$\{?(?P<name>[A-Za-z_]\w{0,60})\b"
    r"|if \[{1,2} [\"']?\$\{?(?P<tested>[A-Za-z_]\w{0,60})\b.{0,80}\bexit\b"
)


def _find_stored_exit(lines: Sequence[str], echoes: Sequence[int]) -> int:
    """Return the index of the last command; if that only ends the script with the exit code that an
    earlier one left in a variable (`make || CODE=$?`, at the end `exit $CODE`), of the earlier."""
    last = echoes[-1]
    exits = _EXITS.match(lines[last][2 : 2 + _LONGEST])
    if not exits:
        return last
    name = re.escape(exits["name"] or exits["tested"])
    stores = re.compile(rf"(?P<before>.{{0,300}}?)\b{name}=[\"']?\$\{{?(?:\?|PIPESTATUS)")
    for place in range(len(echoes) - 2, -1, -1):
        if stored := stores.match(lines[echoes[place]][2 : 2 + _LONGEST]):
            if stored["before"].strip(" ;&|{") or not place:
                return echoes[place]
            return echoes[place - 1]
    return last


_TRACED = re.compile(r"\+{1,8} (?=\S)")
_TURNS_ON = re.compile(r"(?:.{0,200}\b(?:ba|da|z|k)?sh -\w{0,8}x|set -\w{0,8}x)")
_SETTLES = re.compile(
    r"(?:exit|return|test|trap|echo|printf|cat|rm|kill|wait|cd|popd|pushd|set|unset|export|local"
    r"|true|false|break|shift|sleep|\w{0,40}(?:cleanup|clean_up|on_exit|teardown|finish)\w{0,40})\b"
    r"|\[{1,2} |\(\(|: |\w{1,60}\+?="
)
"""What a traced script does around the command that fails: keep its exit code, clean up, end."""


def _find_traced(lines: Sequence[str], found: FailingCommand) -> FailingCommand | None:
    """Return the last command that a shell has traced (`set -x`) within the output of `found`, None
    if it traces none. A diff has lines like these, so the trace begins with the output."""
    first = found.first - 1
    begins = first < found.last and _TRACED.match(lines[first])
    if not begins and not _TURNS_ON.match(found.text[:_LONGEST]):
        return None
    for at in range(found.last - 1, first - 1, -1):
        mark = _TRACED.match(lines[at])
        command = lines[at][mark.end() : _LONGEST].strip() if mark else ""
        if command and not _SETTLES.match(command):
            return FailingCommand(command, at + 2, found.last)
    return None


# ------------------------------------------------------------------------------ a command's name

_BETWEEN = re.compile(r"\s{0,4}(?:&&|\|\||;|\|)\s{0,4}")
_AROUND = re.compile(
    r"(?:(?:[A-Za-z_]\w{0,60}=(?:\"[^\"]{0,200}\"|'[^']{0,200}'|[^\s\"']{0,200})"
    r"|sudo|exec|time|env|nohup|command|then|do|if|!|&|-\w|\(|\{) ){1,8}"
)
_WORD = re.compile(r"[A-Za-z][\w.:-]{0,40}$")
_WORDS, _COMMANDS = 3, 4


def _name_program(part: str) -> str:
    """Return the program of a part of a command with its own command, such as `docker build`."""
    words = _AROUND.sub("", f"{part} ", 1).split()
    if not words:
        return ""
    program = words[0].strip("\"'()").replace("\\", "/").rpartition("/")[2] or words[0]
    named = [program]
    for word in words[1:_WORDS]:
        if not _WORD.match(word) or "." in word:
            break
        named.append(word)
    return " ".join(named)


# ------------------------------------------------------------- what it was doing when time was up

_LAST = 3
"""How many last lines show where a script hung."""

_MOST = 64
"""The most tests that can be under way: more are a mere list of tests."""

_AFTER_THE_SCRIPT = re.compile(
    r"WARNING: (?:step_script|after_script|script) could not run|Running after_script"
    r"|Uploading artifacts for failed job|Saving cache for failed job"
    r"|Cleaning up project directory|(?:ERROR|FATAL): Job failed"
)
"""What the runner writes after the script."""

_TEST_BEGINS = re.compile(
    r"(?P<pytest>[\w./+-]{1,200}\.py::(?:(?! (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b).)"
    r"{1,300})$|=== (?:RUN|CONT) +(?P<go>\S{1,300})$"
    r"|\[ RUN {6}\] (?P<gtest>\S{1,300})$"
    r"|test (?P<cargo>\S{1,300}) (?:\.\.\.|has been running for over \d{1,6} seconds)$"
    r"|(?P<unittest>\w{1,100} \([\w.]{1,300}\)) \.\.\.\s*$"
    r"|\[INFO\] Running (?P<maven>[\w.$]{1,300})$"
    r"|(?P<gradle>\S{1,300} > .{1,300}) STARTED$"
    r"|Start +\d{1,6}: (?P<ctest>\S{1,300})$"
)
"""A line that says that a test has begun, and not yet how it ended."""

_TEST_ENDS = re.compile(
    r"(?:--- (?:PASS|FAIL|SKIP): |\[ {2}(?: {5}OK|FAILED {2}|SKIPPED ) ?\] )(?P<first>\S{1,300})"
    r"|test (?P<cargo>\S{1,300}) \.\.\. \w"
    r"|(?P<gradle>\S{1,300} > .{1,300}) (?:PASSED|FAILED|SKIPPED)$"
    r"|(?:\[\w{1,7}\] )?Tests run: .{1,200} in (?P<maven>[\w.$]{1,300})$"
    r"|\d{1,6}/\d{1,6} Test +#\d{1,6}: (?P<ctest>\S{1,300}) "
    r"|(?:\[gw\d{1,4}\] \[ {0,2}\d{1,3}%\] )?"
    r"(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?P<pytest>[\w./+-]{1,200}\.py::\S.{0,300}?)$"
)
_TEST_RESULT = re.compile(
    r"(?:(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b(?:\s+\[ {0,2}\d{1,3}%\])?"
    r"|ok|FAIL|ERROR|skipped .{0,200})\s*$"
)
"""The result of the last test that has begun, on a line of its own."""


def find_last_words(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the last lines of a script that reached its time limit: they show where it hung.

    What the runner says before the first command is none of it. Nothing if they are only the
    script's own commands.
    """
    end = next((at for at, line in enumerate(lines) if _AFTER_THE_SCRIPT.match(line)), len(lines))
    begin = next((at for at, line in enumerate(lines[:end]) if line.startswith("$ ")), 0)
    said = [line.strip() for line in lines[begin:end] if line.strip()][-_LAST:]
    if all(line.startswith("$ ") for line in said):
        return {}
    return {f"at the end: {normalise_places(line)}": f"at the end: {line}" for line in said}


def find_unfinished_test(lines: Iterable[str]) -> str:
    """Return the name of the test that began last of those that have not ended, "" for none.

    The lines are the end of a log, without gaps.
    """
    under_way: dict[str, None] = {}
    for line in lines:
        text = line[:1000].strip()
        if ended := _TEST_ENDS.match(text):
            under_way.pop(_get_name(ended), None)
        elif _TEST_RESULT.match(text) and under_way:
            under_way.popitem()
        elif begun := _TEST_BEGINS.match(text):
            under_way[_get_name(begun)] = None
    return next(reversed(under_way), "") if len(under_way) <= _MOST else ""


def _get_name(found: re.Match[str]) -> str:
    return str(found[found.lastgroup or 0])
