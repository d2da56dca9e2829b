"""Signs links to a session's page, which are valid for one session and a limited time."""

import hmac
import re

_SIGNATURE = re.compile(r"(\d{1,12})\.([0-9a-f]{64})", re.ASCII)
_CONTEXT = b"sandpiper session pages"


class Signer:
    """Signs and verifies with a key that is made from `secret` for this use only."""

    def __init__(self, secret: str) -> None:
        # HKDF-SHA256 with a key of one block (RFC 5869).
        extracted = hmac.digest(bytes(32), secret.encode(), "sha256")
        self._key = hmac.digest(extracted, _CONTEXT + b"\x01", "sha256")

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
