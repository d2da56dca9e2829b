"""What redaction is attacked with, one table a module.

Every secret is made up, and put together from parts: no file here holds anything that looks like
one.
"""

import base64
import random
import re
import string

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
_MARK = re.compile(r"\[redacted: [a-z0-9-]+\]")
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"


def make_random(alphabet: str, size: int, seed: int = 0) -> str:
    """Characters as a generator of tokens makes them; the same for the same arguments."""
    seeded = random.Random(f"{alphabet}{size}{seed}")
    while True:
        made = "".join(seeded.choices(alphabet, k=size))
        # A real token of the length practically always has all that its alphabet offers.
        digits = set(alphabet) & set(string.digits)
        capitals = set(alphabet) & set(string.ascii_uppercase)
        if (not digits or digits & set(made)) and (not capitals or capitals & set(made)):
            return made


def encode_base64(text: str) -> str:
    """In standard Base64."""
    return base64.b64encode(text.encode()).decode()


def find_left(secret: str, before: str, after: str, size: int = 6) -> list[str]:
    """What of a secret in `before` is still in `after`: each part of `size` characters.

    What stands beside the secret too, or in a mark, does not count.
    """
    beside = before.replace(secret, "\0")
    unmarked = _MARK.sub("\0", after)
    parts = (secret[at : at + size] for at in range(max(1, len(secret) - size + 1)))
    return [part for part in parts if part in unmarked and part not in beside]
