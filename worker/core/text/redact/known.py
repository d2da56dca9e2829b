"""The process's own secrets, in every form they travel in."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, Implementation

from worker.core.text.redact.spans import mark

MIN_SECRET = 8
"""Shorter known secrets are ignored: they would tear ordinary words apart."""

_MARK = mark("secret").encode()


class KnownSecrets:
    """Secrets that are known as they are. Its `repr` shows nothing."""

    __slots__ = ("_engine", "_forms")

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {
            form.encode("utf-8", "surrogatepass")
            for secret in secrets
            for form in _forms(secret.strip())
        }
        self._forms = tuple(sorted(known, key=lambda form: (-len(form), form)))
        self._engine = _engine(self._forms)

    def redact(self, data: bytes) -> bytes:
        """`data` without any of them, also where one is broken over lines."""
        if self._engine is None or not (found := self._found(data)):
            return data
        for index in found:
            form = self._forms[index]
            data = data.replace(form, _MARK + b"\n" * form.count(b"\n"))
        # What is left of them is broken over lines.
        for index in self._found(data):
            data = _wrapped(self._forms[index]).sub(_mark_lines, data)
        return data

    def _found(self, data: bytes) -> list[int]:
        """Which forms are there, if line breaks don't count; the longest first."""
        assert self._engine is not None
        matches = self._engine.find_matches_as_indexes(_flat(data), overlapping=True)
        return sorted({index for index, _, _ in matches})


def _engine(forms: tuple[bytes, ...]) -> BytesAhoCorasick | None:
    flat = [_flat(form) for form in forms]
    return BytesAhoCorasick(flat, implementation=Implementation.DFA) if flat else None


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may stand in a log: plain, escaped, encoded."""
    if len(secret) < MIN_SECRET:
        return
    raw = secret.encode()
    yield secret
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)
    yield raw.hex()
    yield raw.hex().upper()
    for shift in range(3):
        form = base64_core(raw, shift)
        yield form
        yield form.replace("+", "-").replace("/", "_")


def base64_core(raw: bytes, shift: int) -> str:
    """The characters that `raw` alone decides when it stands `shift` bytes into a base64 text."""
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    last = len(encoded) - (1 if (shift + len(raw)) % 3 else 0)
    return encoded[BASE64_SKIPPED[shift] : last]


BASE64_SKIPPED = (0, 2, 3)
"""How many characters of a base64 group the bytes before decide, by how many bytes those are."""


def _flat(data: bytes) -> bytes:
    return data.translate(None, b" \t\r\n").replace(b"\\n", b"")


def _wrapped(form: bytes) -> re.Pattern[bytes]:
    """`form` with a line break (and the next line's indentation) between any two bytes."""
    each = [re.escape(form[at : at + 1]) for at in range(len(form))]
    return re.compile(rb"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40})?".join(each))


def _mark_lines(found: re.Match[bytes]) -> bytes:
    return _MARK + b"\n" * found[0].count(b"\n")
