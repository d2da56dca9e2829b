"""What the sandbox's image offers, said once: to the model, in the image's README, to the tests."""

TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("text", ("bash", "sed", "awk", "less", "diff", "patch", "sort", "cut", "xargs", "iconv")),
    ("searching", ("rg", "grep", "find")),
    ("job logs", ("log",)),
    ("JSON, YAML, TOML, XML", ("jq", "yq", "tomlq", "xmllint")),
    ("data and code", ("python3", "sqlite3", "git")),
    ("archives", ("tar", "unzip", "zip", "gzip", "igzip", "bzip2", "xz", "zstd")),
    ("looking", ("file", "ps", "top", "stat", "od", "sha256sum")),
)
"""Purposes and commands, coreutils being understood."""


LOG = (
    "`log` reads job logs: `log outline FILE` (sections, commands, durations, where errors are), "
    "`log errors FILE`, `log grep [-C N] PATTERN FILE`, `log slice FILE A-B`, `log templates FILE` "
    "(the unusual lines), `log diff FILE [GREEN]` (what is new since the job last passed)."
)
"""The image's own command, in a line for the model."""


def names() -> tuple[str, ...]:
    """All commands, in the order of the table."""
    return tuple(name for _, commands in TOOLS for name in commands)


def sentence() -> str:
    """One line for the model."""
    return f"Tools: coreutils, {', '.join(names())}; python3 has PyYAML. {LOG}"


def table() -> str:
    """The table of the image's README."""
    rows = [f"| {purpose} | {', '.join(commands)} |" for purpose, commands in TOOLS]
    return "\n".join(["| for | tools |", "|---|---|", *rows])
