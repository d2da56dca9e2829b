"""Which change to a Dockerfile changes what is in its image, and not only how it is used. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from worker.verdict.diffs import read_hunks

_KEYWORD = re.compile(
    r"\s*(?:FROM|RUN|CMD|LABEL|EXPOSE|ENV|ADD|COPY|ENTRYPOINT|VOLUME|USER|WORKDIR|ARG|ONBUILD"
    r"|STOPSIGNAL|HEALTHCHECK|SHELL|MAINTAINER)\s",
    re.IGNORECASE,
)
_INSTALLS = re.compile(
    r"^\s{0,8}(?:FROM\s|ADD\s.{0,80}https?:|(?:ARG|ENV)\s.{0,200}(?:VERSION|IMAGE|TAG))"
    r"|--from=|\b(?:install|curl|wget|apt|apt-get|apk|dnf|microdnf|yum|zypper|pip3?|uv|poetry|conda"
    r"|yarn|pnpm|bundle|gem|composer|brew|rustup|sdkmanager|npm (?:ci|i)|go get)\b",
    re.IGNORECASE,
)
_LONGEST = 400


def find_changed_install(diff: str) -> int:
    """Return the number, in the new file, of the first changed line of an instruction that names a
    base image or installs something; 0 if there is none.

    An instruction goes on over lines that end with a backslash. One that begins before its hunk
    counts as installing, because it may be.
    """
    lines = _read_lines(diff)
    return next((number for number, changed, installs in lines if changed and installs), 0)


def _read_lines(diff: str) -> Iterator[tuple[int, bool, bool]]:
    """Yield each line's number, whether it is changed, and whether its instruction installs."""
    for _, hunk in groupby(read_hunks(diff), key=lambda line: line.hunk):
        lines = list(hunk)
        goes_on = lines[0].new > 1
        sides = {sign: _Side(goes_on, goes_on) for sign in "-+"}
        for line in lines:
            found = [sides[sign].read_line(line.text) for sign in line.sign.strip() or "-+"]
            yield line.new, line.sign != " ", found[0]


@dataclass
class _Side:
    """The file before or after: whether its instruction installs, and goes on in the next line."""

    installs: bool
    goes_on: bool

    def read_line(self, text: str) -> bool:
        """Read the next line; returns whether it belongs to an instruction that installs."""
        if text.lstrip().startswith("#"):  # a comment, also inside an instruction
            return False
        starts = not self.goes_on or bool(_KEYWORD.match(text))
        found = bool(_INSTALLS.search(text[:_LONGEST]))
        self.installs = found or (self.installs and not starts)
        self.goes_on = text.rstrip().endswith("\\")
        return self.installs
