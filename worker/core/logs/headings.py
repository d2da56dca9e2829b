"""Puts the path that heads a linter's list of problems before each of its errors. Pure.

ESLint, stylelint and yamllint print a file's path on a line of its own and then `12:7  error  …`
for each problem in it; PHP_CodeSniffer prints `FILE: path` and then `12 | ERROR | …`.
"""

import re
from collections.abc import Iterable, Iterator

_NUMBER = r"(?P<number>\d{1,9}: ?)?"
_HEADING = re.compile(
    _NUMBER + r"(?:FILE: )?(?P<path>(?:[A-Za-z]:)?[\w@.+~$/\\-]{1,300}\.\w{1,12})\s*$"
)
_ERROR = re.compile(
    _NUMBER + r"[ \t]{1,20}(?P<at>\d{1,7}(?::\d{1,7})?)(?:\s{1,20}|\s*\|\s)"
    r"(?P<said>(?:error|ERROR|[✖×])\s.*)$"
)
_GAP = "…"


def join_headings(lines: Iterable[str]) -> Iterator[str]:
    """Yield a log's lines, with or without their numbers; an error below a path begins with that
    path and its place (`src/app.js:12:7: error …`), if no blank line or gap is between them."""
    path = ""
    for line in lines:
        if heading := _HEADING.match(line):
            path = heading["path"]
        elif not line.strip() or line == _GAP:
            path = ""
        error = _ERROR.match(line[:1000]) if path else None
        yield _write_error(path, error) if error else line


def _write_error(path: str, error: re.Match[str]) -> str:
    return f"{error['number'] or ''}{path}:{error['at']}: {error['said']}"
