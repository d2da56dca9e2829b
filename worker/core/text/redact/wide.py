"""Text in UTF-16 or UTF-32, as a whole file or within other data."""

import re
from collections.abc import Callable

_WIDE = re.compile(rb"(?:[^\0]\0){8,}+[^\0]?|(?:[^\0]\0{3}){8,}+[^\0]?")
"""Characters of one byte each, separated by one or by three zero bytes."""


def redact_wide(data: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    """Return `data` with every run of wide characters redacted as if each were a single byte."""

    def replace(found: re.Match[bytes]) -> bytes:
        wide = found[0]
        clean = redact(narrow := wide.replace(b"\0", b""))
        if clean == narrow:
            return wide
        zeros = b"\0" * (wide.find(narrow[1:2], 1) - 1)
        spread = zeros.join(clean[at : at + 1] for at in range(len(clean)))
        return spread + zeros if wide.endswith(b"\0") else spread

    return _WIDE.sub(replace, data)
