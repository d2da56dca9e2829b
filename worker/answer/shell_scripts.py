"""Reads what a shell script runs from its text, and tells which commands are checks: tests, builds,
lint and compile commands. Pure.

The text is the model's, and no shell reads it here: what cannot be split stays one command. Some
checks are known by name. Any other program is one by its form: what it is given to run or to look
at are the changed files, or tests.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from posixpath import basename

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
_QUIET = """
    awk base64 cat cd chmod cmp column comm cp cut date diff dirname du echo egrep export fgrep
    file find git grep head jq less ln log ls md5sum mkdir mv nl od patch popd printf pushd pwd
    readlink realpath rg rm sed set sha256sum sort stat tail tar tee test touch tr tree true
    uniq unzip wc which xmllint xxd yq [
"""
QUIET = frozenset(_QUIET.split())
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


# ------------------------------------------------------------------------------------------ checks

_FILEWISE_NAMES = """
    black c++ cc clang clang++ compileall eslint flake8 g++ gcc hadolint isort javac mypy
    prettier py_compile pylint pyright ruff rustc shellcheck tsc yamllint
"""
FILEWISE = frozenset(_FILEWISE_NAMES.split())
"""Checks that look at the files that they are given."""

_ALONE_NAMES = """
    ava ctest golangci-lint jest mocha ninja nox phpunit prove py.test pytest rspec staticcheck
    tox unittest vitest
"""
_ALONE = FILEWISE | frozenset(_ALONE_NAMES.split())
"""Checks, whatever follows them."""

_WITH = {
    "bazel": {"build", "test"},
    "bun": {"test"},
    "cargo": {"build", "check", "clippy", "nextest", "test"},
    "cmake": {"--build"},
    "deno": {"check", "lint", "test"},
    "docker": {"build", "buildx"},
    "dotnet": {"build", "test"},
    "go": {"build", "test", "vet"},
    "helm": {"lint", "template"},
    "mix": {"compile", "test"},
    "node": {"--check", "--test"},
    "npm": {"t", "test"},
    "pnpm": {"t", "test"},
    "swift": {"build", "test"},
    "terraform": {"plan", "validate"},
    "yarn": {"t", "test"},
    "zig": {"build", "test"},
}
"""Programs that are checks if one of these words follows directly."""

_OPTIONS = {
    "black": {"--check"},
    "isort": {"--check", "--check-only", "-c"},
    "prettier": {"--check", "-c"},
    "ruff": {"--check", "check"},
}
"""Programs that are checks only if one of these words follows."""

_OF_GOALS = frozenset(
    ("gradle", "gradlew", "just", "make", "mvn", "mvnw", "npm", "pnpm", "rake", "sbt", "yarn")
)
"""Programs that run a target or a script of the project by its name."""

_GOAL = re.compile(
    r"(?:^|[:_-])(?:all|assemble|build|check|ci|compile|e2e|lint|package|spec|tests?|types?|unit"
    r"|typecheck|verify|vet)(?:$|[:_-])"
)
_IDLE_OPTIONS = """
    --co --collect-only --dry-run --help --just-print --list --recon --setup-plan --show-only
    --version -V -h -version
"""
_IDLE = frozenset(_IDLE_OPTIONS.split())
"""Options with which nothing is checked."""

_PYTHON = re.compile(r"python(?:3(?:\.\d{1,2})?)?")
_SHELLS = frozenset({"bash", "node", "perl", "python", "python3", "ruby", "sh"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OPTION = re.compile(r"-.*|\d[\d.]*[smhd]?")
"""An option of `nice` or `timeout`, or its value, such as `10` or `60s`."""

_RUNNERS = (
    ("bundle", "exec"),
    ("env",),
    ("npx",),
    ("pipenv", "run"),
    ("poetry", "run"),
    ("time",),
    ("uv", "run"),
)


def list_arguments(words: Sequence[str], own: Collection[str]) -> tuple[str, ...] | None:
    """Return the arguments of a check, without options; None if the command is no check.

    `own` are commands that the project's jobs run. A script of the project is a check if it is one
    of these.
    """
    words = _remove_runner(list(words))
    if not words or not _IDLE.isdisjoint(words):
        return None
    script = words[1] if words[0] in _SHELLS and len(words) > 1 else words[0]
    is_of_project = "/" in script and not script.startswith(("/", "-", "~"))
    if is_of_project and " ".join(words) in own:
        return _list_positional(words)
    program, *rest = _remove_interpreter(words)
    program = basename(program)
    if not _is_check(program, rest):
        return None
    return _list_positional(rest[1:] if program in _WITH or program == "ruff" else rest)


_REWRITING = """
    --autocorrect --fix --in-place --write -A -a -i -w add ci fmt format init install
"""
_REWRITES = frozenset(_REWRITING.split())
"""Words with which a program changes files, and checks none."""

_WORD = re.compile(r"[\w:-]{1,20}")
_TESTS = re.compile(r"(?:^|[/._-])(?:tests?|specs?|t)(?:[/._-]|$)|Tests?\.\w+$|\.bats$")


@dataclass(frozen=True, slots=True)
class Given:
    """What a program is given: the `first` file, which it runs or looks at, and the `others`.

    `has_tests`: that are tests.
    """

    first: str
    others: tuple[str, ...]
    has_tests: bool


def read_given(words: Sequence[str]) -> Given | None:
    """Return what a program is given, or the script that a command is; None for a command that
    only reads or changes files, or is given code.

    Before the first file may stand words, such as `run`, and values of options.
    """
    words = _remove_runner(list(words))
    if not words or not _IDLE.isdisjoint(words) or not _REWRITES.isdisjoint(words):
        return None
    program, *rest = words
    if basename(program) in QUIET | _OF_GOALS | _OPTIONS.keys() or "-" in rest:
        return None
    given = [each for each in rest if not each.startswith("-")]
    given = [program, *given] if "/" in program else given
    before = [*takewhile(_WORD.fullmatch, given)][:_MOST_WORDS]
    first, *others = given[len(before) :] or before[-1:] or [""]
    if not first or re.search(r"[^\w./:@+=-]", first):
        return None
    # What follows may be code, and the file beside it what that reads.
    others = [] if any(map(_CODE_OPTION.fullmatch, rest)) else others
    return Given(first, tuple(others), any(map(_TESTS.search, [*before, first])))


_MOST_WORDS = 3
_CODE_OPTION = re.compile(r"-\w{0,3}[ce]|--eval|--execute")


def name_program(words: Sequence[str]) -> str:
    """Return the program that a command runs, whatever starts it; "" if it runs none."""
    words = _remove_runner(list(words))
    return basename(_remove_interpreter(words)[0]) if words else ""


def _is_check(program: str, rest: list[str]) -> bool:
    if needed := _OPTIONS.get(program):
        return not needed.isdisjoint(rest)
    if program in _ALONE or (rest and rest[0] in _WITH.get(program, ())):
        return True
    goals = _list_positional(rest)
    if program == "make" and (not goals or "-n" in rest):
        return "-n" not in rest
    if program in ("npm", "pnpm") and rest[:1] != ["run"]:
        return False
    return program in _OF_GOALS and any(map(_GOAL.search, goals))


def _remove_runner(words: list[str]) -> list[str]:
    """Return the command without the variables that are set for it and what only starts it."""
    while words:
        runner = next((each for each in _RUNNERS if tuple(words[: len(each)]) == each), ())
        if runner:
            words = words[len(runner) :]
        elif _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif words[0] in ("nice", "timeout"):
            words = [*dropwhile(_OPTION.fullmatch, words[1:])]
        else:
            break
    return words


def _remove_interpreter(words: list[str]) -> list[str]:
    """Return a module that Python runs, with its arguments, as if it were a command."""
    if _PYTHON.fullmatch(basename(words[0])) and "-m" in words[:-1]:
        before, after = words[1 : words.index("-m")], words[words.index("-m") + 1 :]
        return after if all(each.startswith("-") for each in before) else words
    return words


def _list_positional(words: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments, and the values of options that are written with "="."""
    values = (each.partition("=")[2] if each.startswith("-") else each for each in words)
    return tuple(filter(None, values))
