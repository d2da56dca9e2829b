"""Tokens and private keys in Base64, as in a Kubernetes secret or a CI/CD variable."""

import base64
import binascii
import re
import string
from collections.abc import Iterator, Sequence
from functools import partial

from worker.safety.redact.known import BASE64_SKIPPED, base64_core
from worker.safety.redact.randomness import looks_like_base64
from worker.safety.redact.rules import Rule
from worker.safety.redact.tokens import TOKENS, token_pattern

_LEAST_PREFIX = 4
_ALPHABET = string.ascii_letters.encode() + string.digits.encode() + b"+/-_"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_DECODED = 320
"""How many Base64 characters are decoded to see whether they contain a token."""

_MOST_BEFORE = 4096
_RUN = re.compile(
    rb"[A-Za-z0-9+/_-]*+={0,2}"
    rb"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40}[A-Za-z0-9+/]{60,}+={0,2})*+"
)
"""The rest of a Base64 text, which may be wrapped into long lines."""

_LAST_LINE = re.compile(
    rb"[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40}([A-Za-z0-9+/]{2,76}={0,2})(?=\s|\\n|\"|$)"
)


def _list_rules(kind: str, prefix: str, pattern: str) -> Iterator[Rule]:
    """Yield a rule for each position that the prefix may have in a group of three bytes."""
    compiled = re.compile(pattern.encode())
    for shift in range(3):
        core = base64_core(prefix.encode(), shift).encode()
        if len(core) >= _LEAST_PREFIX:
            yield Rule(kind, (core.lower(),), partial(_find, core, shift, compiled))


def _find(
    core: bytes, shift: int, pattern: re.Pattern[bytes], data: bytes, at: int
) -> Sequence[tuple[int, int]]:
    """Return where the Base64 text begins and ends that contains a token with the prefix `core`."""
    first = at - BASE64_SKIPPED[shift]
    if first < 0 or not data.startswith(core, at):
        return ()
    if not pattern.match(_decode(data[first : first + _DECODED]), shift):
        return ()
    before = data[max(0, first - _MOST_BEFORE) : first]
    start = first - (len(before) - len(before.rstrip(_ALPHABET)))
    return ((start, _find_end(data, at)),)


def _find_end(data: bytes, at: int) -> int:
    found = _RUN.match(data, at)
    end = found.end() if found is not None else at
    wrapped = b"\n" in data[at:end] or b"\\n" in data[at:end]
    last = _LAST_LINE.match(data, end) if wrapped and data[end - 1 : end] != b"=" else None
    # What is no Base64 by its looks may be the next line of the log.
    ends = last is not None and (last[1].endswith(b"=") or looks_like_base64(last[1]))
    return last.end() if last is not None and ends else end


def _decode(encoded: bytes) -> bytes:
    """Decode the Base64 that a text begins with, b"" if it is not valid."""
    run = _RUN.match(encoded)
    clean = re.sub(rb"\s|\\n|=", b"", run[0] if run is not None else b"").translate(_STANDARD)
    try:
        return base64.b64decode(clean[: -1 if len(clean) % 4 == 1 else None] + b"==")
    except binascii.Error:
        return b""


def _make_rules() -> Iterator[Rule]:
    yield from _list_rules("private-key", "-----BEGIN ", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
    for first in ("alg", "kid", "typ", "enc"):  # the header's first field: a job's token has "kid"
        prefix = base64.b64encode(f'{{"{first}":"'.encode()).decode()[:10]
        yield from _list_rules("jwt", prefix, rf"{prefix}[\w-]{{4,160}}\.[\w-]{{8}}")
    for token in TOKENS:
        for prefix in token.prefixes.split():
            yield from _list_rules(token.kind, prefix, token_pattern(token))


BASE64_RULES = tuple(_make_rules())
