"""The secret of each project's webhook, made from one key that no webhook holds. Pure.

Whoever has one project's secret can make no other's: it is an HMAC of the project's id. Which
project a delivery's secret is to be of, the address says: `…?project=42`.
"""

import base64
import hmac

SIGNING = "whsec_"
"""What a signing token begins with; a key that begins with it makes signing tokens."""

PARAMETER = "project"
"""The parameter of the webhook's address that names the project."""

MIN_KEY_LENGTH = 32
"""Characters. Whoever has a project's secret can try keys offline."""

MAX_KEYS = 2
"""The new key and, until all webhooks have secrets of it, the old one."""


def split_keys(text: str) -> tuple[str, ...]:
    """Split what an operator has set into keys, the newest first; they have no spaces."""
    return tuple(text.split())


def derive_secret(key: str, project_id: int) -> str:
    """Derive a project's secret: a signing token if the key looks like one, else 64 hex digits."""
    message = f"sandpiper webhook of project {project_id}".encode()
    digest = hmac.digest(key.encode(), message, "sha256")
    return SIGNING + base64.b64encode(digest).decode() if key.startswith(SIGNING) else digest.hex()


def make_address(url: str, project_id: int) -> str:
    """Make the address of a project's webhook; `url` is the receiver's, with its path."""
    return f"{url}?{PARAMETER}={project_id}"
