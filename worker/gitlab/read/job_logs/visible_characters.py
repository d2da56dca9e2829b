"""Makes invisible characters visible: they may be the very cause of a failure."""

import re

from worker.safety.redacted_values import Redacted, assume_redacted
from worker.safety.untrusted import UNSEEN


def reveal_invisible(data: Redacted) -> Redacted:
    """Write each invisible character in the form `<U+200B>`; bytes that are not UTF-8 stay.

    Such characters hide text from humans. They can also break a build, so they are not removed.
    """
    if data.isascii():
        return data
    text = data.decode("utf-8", "surrogateescape")
    return assume_redacted(UNSEEN.sub(_name_character, text).encode("utf-8", "surrogateescape"))


def _name_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    plain = code < 0x80 or 0xD800 <= code <= 0xDFFF
    return found[0] if plain else f"<U+{code:04X}>"
