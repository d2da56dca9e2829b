"""The commands of the sandbox's image, listed once for the model, the README and the tests."""

import re

from sandbox.base import Sandbox, SandboxError
from sandbox.image.preview import PREVIEW, most_shown

TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("text", ("bash", "sed", "awk", "less", "diff", "patch", "sort", "cut", "xargs", "iconv")),
    ("searching", ("rg", "grep", "find")),
    ("job logs", ("log",)),
    ("JSON, YAML, TOML, XML", ("jq", "yq", "tomlq", "xmllint")),
    ("data and code", ("python3", "sqlite3", "git")),
    ("archives", ("tar", "unzip", "zip", "gzip", "igzip", "bzip2", "xz", "zstd")),
    ("looking", ("file", "ps", "top", "stat", "od", "sha256sum")),
)
"""Purposes and their commands; coreutils are always there."""


_UNUSUAL = ("rg", "jq", "yq", "tomlq", "xmllint", "sqlite3")
_YAML = "PyYAML"
"""What a model may not expect, and is told of where it is there."""


def list_commands() -> tuple[str, ...]:
    """List all commands in the order of the table."""
    return tuple(name for _, commands in TOOLS for name in commands)


LOG = (
    "`log` reads job logs: `log errors FILE`, `log slice FILE A-B`, `log grep [-C N] PATTERN FILE`"
    ", `log outline FILE` (sections, commands, times, errors), `log templates FILE` "
    "(unusual lines), `log diff FILE [GREEN]` (what is new since the job last passed)."
)
"""A line for the model about `log`, the image's own command."""


PROBED = (
    *("python3", "pytest", "pip", "perl", "bash", "git", "gcc", "make", "cmake", "node", "npm"),
    *("go", "cargo", "rustc", "java", "mvn", "gradle", "ruby", "php", "dotnet"),
)
"""Commands that run or build a project's code; not every image has them."""

_SECONDS = 20.0
_MAX_VERSION = 20
_PROBE = f"""\
find_version() {{
  case $1 in
    # Two that take a third of a second to say it themselves.
    pip) timeout 2 python3 -I -c 'import pip; print(pip.__version__)' 2>&- && return ;;
    npm) grep -m 1 '"version"' "$(dirname "$(readlink -f "$2")")/../package.json" 2>&- && return ;;
    go) timeout 2 go version && return ;;
  esac
  timeout 2 $1 --version 2>&1
}}
for name in {" ".join(PROBED)}; do
  path=$(command -v $name) || continue
  echo "$name $(find_version $name "$path" | head -n 5 | tr '\\n' ' ')"
done
for name in {" ".join(list_commands())}; do
  command -v $name >&- || echo "no $name"
done
timeout 5 python3 -I -c 'import yaml' 2>&- || echo "no {_YAML}"
"""
_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){1,3}")


def find_versions(sandbox: Sandbox) -> str:
    """Find the versions of `PROBED` in a sandbox, what else it has that is unusual, and what is
    missing of all these and of `TOOLS`: "python3 3.11.2, jq; no go".

    The sandbox is asked because the operator may use any image. Raises SandboxError.
    """
    output = sandbox.exec(_PROBE, timeout=_SECONDS, number=0).stdout.preview
    lines = [line.partition(" ") for line in output.splitlines()]
    versions = {
        name: f" {version[0][:_MAX_VERSION]}" if (version := _VERSION.search(rest)) else ""
        for name, _, rest in lines
        if name in PROBED
    }
    if not versions:
        raise SandboxError("the sandbox does not say which tools it has")
    absent = {rest for name, _, rest in lines if name == "no"} | set(PROBED) - set(versions)
    unusual = [name for name in (*_UNUSUAL, _YAML) if name not in absent]
    present = ", ".join([*(f"{name}{each}" for name, each in versions.items()), *unusual])
    listed = dict.fromkeys((*PROBED, *list_commands(), _YAML))
    missing = ", ".join(name for name in listed if name in absent)
    return f"{present}; no {missing}" if missing else present


def describe_output() -> str:
    """Describe for the model how much of a command's output is shown."""
    return (
        f"At most {most_shown(PREVIEW):,} bytes of stdout are shown, of more the beginning and the "
        f"end ({PREVIEW:,} bytes), and the file that has all of it."
    )
