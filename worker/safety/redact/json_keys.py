"""The private parts of a key in JSON (a JWK): `d`, `p`, `q`, `dp`, `dq`, `qi`, `k`."""

import re
from collections.abc import Sequence

from worker.safety.redact.rules import Rule

_MOST = 4096
"""The most bytes before and after the key's type that may belong to the same key."""

_QUOTE = rb"\\{0,3}[\"']"
_TYPE = re.compile(rb"%b\s{0,8}:\s{0,8}%b(?:RSA|EC|OKP|oct|AKP)%b" % ((_QUOTE,) * 3))
_PRIVATE = re.compile(
    rb"%b(?:d|p|q|dp|dq|qi|k|priv)%b\s{0,8}:\s{0,8}%b([A-Za-z0-9_-]{16,2048})" % ((_QUOTE,) * 3)
)


def _find(data: bytes, at: int) -> Sequence[tuple[int, int]]:
    """Return where the private parts of the key are whose type is at `at`."""
    name = at + len(b"kty")
    if _TYPE.match(data, name) is None:
        return ()
    before = max(0, at - _MOST)
    start = max(before, data.rfind(b"{", before, at))
    if data.rfind(b"kty", start, at) >= 0:  # each key is read once
        return ()
    end = data.find(b"}", at, at + _MOST)
    return [
        each.span(1) for each in _PRIVATE.finditer(data, start, end if end >= 0 else at + _MOST)
    ]


JSON_KEY_RULES = (Rule("private-key", (b'kty"', b"kty\\", b"kty'"), _find),)
