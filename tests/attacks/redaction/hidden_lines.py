"""Pairs of lines that a log's writer may add, and what a reader must still see between them."""

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.attacks.redaction import ALNUM, BASE64, HEX
from tests.attacks.redaction import make_random as made

_DASHES = "-" * 5
_LABELS = (
    *("PRIVATE", "RSA PRIVATE", "EC PRIVATE", "DSA PRIVATE", "OPENSSH PRIVATE"),
    *("ENCRYPTED PRIVATE", "ANY PRIVATE"),
)
_SECRET = "Tr0ub" + "4dor&3"
_BODY = made(BASE64, 64)

PAIRS: dict[str, tuple[str, str]] = {
    **{
        label: (f"{_DASHES}BEGIN {label} KEY{_DASHES}", f"{_DASHES}END {label} KEY{_DASHES}")
        for label in _LABELS
    },
    "pgp": (
        f"{_DASHES}BEGIN PGP PRIVATE KEY BLOCK{_DASHES}",
        f"{_DASHES}END PGP PRIVATE KEY BLOCK{_DASHES}",
    ),
    "ssh2": ("---- BEGIN SSH2 PRIVATE KEY ----", "---- END SSH2 PRIVATE KEY ----"),
    "putty": ("Private-Lines: 8", "Private-MAC: " + made(HEX, 64)),
    "without dashes": ("BEGIN RSA PRIVATE KEY", "END RSA PRIVATE KEY"),
    "with a first line": (f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}\n{_BODY}", f"{_BODY}\n"),
    "with both lines": (
        f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}\n{_BODY}",
        f"{_BODY}\n{_DASHES}END RSA PRIVATE KEY{_DASHES}",
    ),
    "the end alone": ("", f"{_DASHES}END RSA PRIVATE KEY{_DASHES}"),
    "the beginning alone": (f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}", ""),
    "two beginnings": (f"{_DASHES}BEGIN RSA PRIVATE KEY{_DASHES}",) * 2,
    "rsa in xml": (
        "<RSAKeyValue><Modulus>AQAB</Modulus><P>AQAB</P><Q>AQAB</Q><D>",
        "</D></RSAKeyValue>",
    ),
    "a block of yaml": ("password: |", f"  {_SECRET}"),
    "a block that begins": (f"password: |\n  {_SECRET}", "next: 1"),
    "a folded block": ("token: >-", f"      {made(ALNUM, 24)}"),
    "double quotes": ('password="', '"'),
    "single quotes": ("token: '", f"{made(ALNUM, 24)}'"),
    "three quotes": ('secret = """', f'{made(ALNUM, 24)}"""'),
    "backticks": ("const password = `", f"{_SECRET}`"),
    "a heredoc": ("cat > ~/.pgpass <<PASSWORD", "PASSWORD"),
    "a heredoc of a secret": ("export TOKEN=$(cat <<EOF", f"{made(ALNUM, 24)}\nEOF"),
    "tags": ("<password>", "</password>"),
    "tags of a secret": ("<secret>", f"{made(ALNUM, 24)}</secret>"),
    "our own mark": ("[redacted: private-key", "]"),
    "base64": (
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlFcEFJQkFBS0NBUUVBd0dsUGd6OHp\n" + _BODY,
        f"{_BODY}==",
    ),
    "a name": ('"name": "DB_PASSWORD",', f'"value": "{_SECRET}"'),
    "a header": ("Authorization: Digest", "response="),
    "a url": ("https://user:", "@host.example.com/"),
}
"""The first line and the last line, by what they pretend to enclose."""

HONEST: dict[str, tuple[str, ...]] = {
    "errors": (
        "src/main/java/com/example/WidgetFactory.java:31: error: cannot find symbol",
        "make: *** [Makefile:12: build/widget.o] Error 1",
        "FAILED",
        "Error: expected 3 arguments at /builds/group/project/src/widgets/Factory2",
        "    at com.example.widgets.WidgetFactory.create(WidgetFactory.java:31)",
    ),
    "a path a line": (
        "src/main/java/com/example/WidgetFactoryTest",
        "com/example/widgets/internal/FactoryOfWidgets2",
        "target/classes/META-INF/Widget",
        "lib/x86/Widget12",
    ),
    "digests": (
        made(HEX, 40),
        made(HEX, 64),
        made(HEX, 64, 2).upper(),
        f"commit {made(HEX, 40)}",
        f"sha256:{made(HEX, 64)}",
    ),
    "indented": (
        "      FAIL test_widget.py::test_create - AssertionError: 3 != 4",
        "      assert widget.size == 4",
        "      E   AssertionError",
        "      FAILED",
    ),
    "headers": (
        "HTTP/1.1 500 Internal Server Error",
        "Widget-Version: 2.0",
        "ERROR: Job failed: exit code 1",
    ),
    "a single word": ("Error", "x", "123 of 124", "Widget"),
    "much": tuple(f"step {number} of the build has failed" for number in range(60)),
}
"""Lines that hold no secret."""

PLACES: dict[str, Callable[[list[str]], str]] = {
    "lines": "\n".join,
    "with timestamps": lambda lines: "\n".join(
        f"2024-05-01T12:00:00.{n:06}Z 01O {line}" for n, line in enumerate(lines)
    ),
    "in a diff": lambda lines: "\n".join("+" + line for line in lines),
    "in a list": lambda lines: "\n".join(f"- job 1, line 3: `{line}`" for line in lines),
    "quoted": lambda lines: "\n".join(f"> {line}" for line in lines),
    "in json": lambda lines: json.dumps({"log": "\n".join(lines)}),
    "with carriage returns": "\r\n".join,
    "around a page": lambda lines: "\n\n".join(lines),
    "after a word": lambda lines: "\n".join(f"said {line}" for line in lines),
    "in html": "<br>".join,
}
"""What a page or a tool makes of the lines."""


class HiddenCase(NamedTuple):
    """A text, and the lines of it that hold no secret."""

    name: str
    text: str
    honest: tuple[str, ...]


def _make_case(pair: str, honest: str, place: str) -> HiddenCase:
    first, last = PAIRS[pair]
    lines = [*first.split("\n"), *HONEST[honest], *last.split("\n")]
    return HiddenCase(f"{pair}, {honest}, {place}", PLACES[place](lines), HONEST[honest])


HIDDEN_CASES: tuple[HiddenCase, ...] = tuple(
    _make_case(pair, honest, place) for pair in PAIRS for honest in HONEST for place in PLACES
)
"""Every pair around all lines in every place."""
