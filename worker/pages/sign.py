"""Signs links to a session's page, and the cookies of people who sign in.

Each use has a key of its own, so that what is signed for one is worth nothing for another.
"""

import base64
import binascii
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any

_SIGNATURE = re.compile(r"(\d{1,12})\.([0-9a-f]{64})", re.ASCII)
_SEALED = re.compile(r"([A-Za-z0-9_-]{1,2000})\.([0-9a-f]{64})", re.ASCII)
_CONTEXT = "sandpiper session pages"


def _derive_key(secret: str, context: str) -> bytes:
    """Return HKDF-SHA256's key of one block (RFC 5869)."""
    extracted = hmac.digest(bytes(32), secret.encode(), "sha256")
    return hmac.digest(extracted, context.encode() + b"\x01", "sha256")


class Signer:
    """Signs and verifies with a key that is made from `secret` for this use only."""

    def __init__(self, secret: str) -> None:
        self._key = _derive_key(secret, _CONTEXT)

    def sign(self, session_id: str, until: int) -> str:
        """Sign a session; the signature is valid until `until` (epoch seconds)."""
        return f"{until}.{self._compute_mac(session_id, str(until))}"

    def is_valid(self, session_id: str, signature: str, now: float) -> bool:
        """Whether `signature` is ours, this session's, and not expired at `now`."""
        found = _SIGNATURE.fullmatch(signature)
        if not found:
            return False
        ours = self._compute_mac(session_id, found[1])
        return hmac.compare_digest(ours, found[2]) and now < int(found[1])

    def _compute_mac(self, session_id: str, until: str) -> str:
        return hmac.digest(self._key, f"{session_id}\n{until}".encode(), "sha256").hex()


class Seal:
    """Signs values that a browser keeps for us, with a key made from `secret` for `purpose` only.

    What is sealed can be read by whoever has it, and changed by nobody.
    """

    def __init__(self, secret: str, purpose: str) -> None:
        self._key = _derive_key(secret, f"sandpiper {purpose}")

    def close(self, values: Mapping[str, Any]) -> str:
        """Return the values as text that fits into a cookie."""
        packed = base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")
        return f"{packed}.{self.derive('sealed', packed)}"

    def open(self, text: str) -> Mapping[str, Any] | None:
        """Return the values; None if the text is not ours."""
        found = _SEALED.fullmatch(text)
        if not found or not hmac.compare_digest(self.derive("sealed", found[1]), found[2]):
            return None
        try:
            values = json.loads(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
        except (ValueError, binascii.Error):
            return None
        return values if isinstance(values, dict) else None

    def derive(self, purpose: str, text: str) -> str:
        """Return 64 hex digits that follow from the text, and that nobody can guess."""
        return hmac.digest(self._key, f"{purpose}\n{text}".encode(), "sha256").hex()
