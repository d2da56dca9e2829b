"""The process's own secrets, in every form in which they may appear."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, Implementation

from worker.safety.redact.spans import mark

MIN_SECRET = 8
"""Shorter known secrets are ignored: they occur inside ordinary words."""

_MARK = mark("secret").encode()


class KnownSecrets:
    """Secrets whose values are known. Its `repr` shows none of them."""

    __slots__ = ("_engine", "_forms")

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {
            form.encode("utf-8", "surrogatepass")
            for secret in secrets
            for form in _forms(secret.strip())
        }
        self._forms = tuple(sorted(known, key=lambda form: (-len(form), form)))
        flat = [_flat(form) for form in self._forms]
        self._engine = BytesAhoCorasick(flat, implementation=Implementation.DFA)

    def redact(self, data: bytes) -> bytes:
        """Return `data` without these secrets, including those wrapped over several lines."""
        if not self._forms or not (found := self._find_forms(data)):
            return data
        for index in found:
            form = self._forms[index]
            data = data.replace(form, _MARK + b"\n" * form.count(b"\n"))
        # What is still there is wrapped over several lines.
        for index in self._find_forms(data):
            data = _allow_wraps(self._forms[index]).sub(_mark_lines, data)
        return data

    def _find_forms(self, data: bytes) -> list[int]:
        """Return the indexes of the forms in `data`, ignoring line breaks; the longest first."""
        matches = self._engine.find_matches_as_indexes(_flat(data), overlapping=True)
        return sorted({index for index, _, _ in matches})


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in the forms in which a log may contain it: plain, escaped, encoded."""
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
    """Return the Base64 characters that depend on `raw` alone if `shift` bytes precede it."""
    encoded = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
    last = len(encoded) - (1 if (shift + len(raw)) % 3 else 0)
    return encoded[BASE64_SKIPPED[shift] : last]


BASE64_SKIPPED = (0, 2, 3)
"""How many Base64 characters of a group depend on the bytes before it: for 0, 1 and 2 of them."""


def _flat(data: bytes) -> bytes:
    return data.translate(None, b" \t\r\n").replace(b"\\n", b"")


def _allow_wraps(form: bytes) -> re.Pattern[bytes]:
    """Compile `form` with an optional line break (and indentation) between any two bytes."""
    each = [re.escape(form[at : at + 1]) for at in range(len(form))]
    return re.compile(rb"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40})?".join(each))


def _mark_lines(found: re.Match[bytes]) -> bytes:
    return _MARK + b"\n" * found[0].count(b"\n")
