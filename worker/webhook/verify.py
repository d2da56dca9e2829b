"""Verifies that a delivery is from our GitLab (pure).

There are two schemes, chosen by the secret's form: a plain `X-Gitlab-Token`, or signatures with a
`whsec_…` key as in https://www.standardwebhooks.com/. Headers are checked before any of the body is
read, and the signature is computed while the body arrives.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.errors import ConfigError, Rejected

MAX_SKEW = 300.0
"""The most seconds between a signed delivery's time and ours."""

_PREFIX = "whsec_"

_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=", re.ASCII)
"""The base64 of 32 bytes."""


@dataclass(frozen=True, slots=True, repr=False)
class BodyCheck:
    """Checks one delivery's body chunk by chunk: its HMAC must match one of the given signatures.

    Without `mac`, any body passes, because the headers have proven the secret.
    """

    mac: hmac.HMAC | None = None
    signatures: Sequence[str] = ()

    def update(self, chunk: bytes) -> None:
        """Take the next raw bytes."""
        if self.mac:
            self.mac.update(chunk)

    def verify(self) -> None:
        """Raise Rejected 401 unless the sender signed exactly the bytes that were taken."""
        if self.mac is None:
            return
        expected = "v1," + base64.b64encode(self.mac.digest()).decode()
        if not any([hmac.compare_digest(each, expected) for each in self.signatures]):
            raise Rejected(401, "the webhook-signature header does not match the body")


def make_verifier(secret: str) -> "Verifier":
    """Make the verifier for a secret. Raises ConfigError if it is empty or malformed."""
    if not secret.strip():
        raise ConfigError(
            "there is no webhook secret: set GITLAB_WEBHOOK_SECRET (or GITLAB_WEBHOOK_SECRET_FILE) "
            "to the secret token or the signing token of the GitLab webhook"
        )
    if secret.startswith(_PREFIX):
        return SignatureVerifier(_decode_key(secret))
    return TokenVerifier(secret.encode())


def _decode_key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError as error:
        raise ConfigError("the webhook secret starts with whsec_ but is not base64") from error
    if not key:
        raise ConfigError("the webhook secret is whsec_ without a key: copy it again from GitLab")
    return key


@dataclass(frozen=True, slots=True, repr=False)
class TokenVerifier:
    """Checks the plain secret that is sent with every delivery."""

    secret: bytes

    def check_headers(self, headers: Mapping[str, str], now: float) -> BodyCheck:
        """Check the headers, before the body is read. Raises Rejected 401.

        `headers` has lower-case names, or ignores case; `now` is in epoch seconds.
        """
        token = headers.get("x-gitlab-token")
        if token is None:
            raise Rejected(401, "there is no X-Gitlab-Token header: set the webhook's secret token")
        # ASGI decodes header bytes as latin-1, so this restores what was sent.
        if not hmac.compare_digest(token.encode("latin-1", "replace"), self.secret):
            raise Rejected(401, "the X-Gitlab-Token header is wrong")
        return BodyCheck()


@dataclass(frozen=True, slots=True, repr=False)
class SignatureVerifier:
    """Checks an HMAC-SHA256 over id, time and raw body."""

    key: bytes

    def check_headers(self, headers: Mapping[str, str], now: float) -> BodyCheck:
        """See TokenVerifier."""
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            if not headers.get(name):
                raise Rejected(
                    401, f"there is no {name} header: the webhook needs a signing token (GitLab 19)"
                )
        stamp = headers["webhook-timestamp"]
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
            raise Rejected(401, "the webhook-timestamp header is not a time")
        if abs(now - int(stamp)) > MAX_SKEW:
            raise Rejected(401, "the webhook-timestamp is over 5 minutes off: check the clocks")
        signatures = list(filter(_SIGNATURE.fullmatch, headers["webhook-signature"].split(" ")))
        if not signatures:
            raise Rejected(401, "the webhook-signature header has no v1 signature")
        head = f"{headers['webhook-id']}.{stamp}.".encode("latin-1", "replace")
        return BodyCheck(hmac.new(self.key, head, hashlib.sha256), signatures)


Verifier = TokenVerifier | SignatureVerifier
