"""Verifies that a delivery is from our GitLab (pure).

There are two schemes, chosen by the secret's form: a plain `X-Gitlab-Token`, or signatures with a
`whsec_…` key as in https://www.standardwebhooks.com/. Headers are checked before any of the body is
read, and the signature is computed while the body arrives. Where each project's webhook has a
secret of its own (`settings.hook_secrets`), the check says whose events may follow.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from worker.errors import ConfigError, Rejected
from worker.settings.gitlab import PARAMETER, SIGNING, derive_secret

_MAX_SKEW = 300.0
"""The most seconds between a signed delivery's time and ours."""

_PROJECT = re.compile(r"[1-9]\d{0,17}", re.ASCII)
_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=", re.ASCII)
"""The base64 of 32 bytes."""


@dataclass(frozen=True, slots=True, repr=False)
class BodyCheck:
    """Checks one delivery's body chunk by chunk: an HMAC must match one of the given signatures.

    Without `macs`, any body passes, because the headers have proven the secret. `project` is the
    project whose events the secret is for, 0 for those of all.
    """

    macs: Sequence[hmac.HMAC] = ()
    signatures: Sequence[str] = ()
    project: int = 0

    def update(self, chunk: bytes) -> None:
        """Take the next raw bytes."""
        for mac in self.macs:
            mac.update(chunk)

    def verify(self) -> None:
        """Raise Rejected 401 unless the sender signed exactly the bytes that were taken."""
        if not self.macs:
            return
        expected = ["v1," + base64.b64encode(mac.digest()).decode() for mac in self.macs]
        pairs = product(self.signatures, expected)
        if not any([hmac.compare_digest(given, ours) for given, ours in pairs]):
            raise Rejected(401, "the webhook-signature header does not match the body")


def make_verifier(secret: str) -> "Verifier":
    """Make the verifier for a secret. Raises ConfigError if it is empty or malformed."""
    if not secret.strip():
        raise ConfigError(
            "there is no webhook secret: set GITLAB_WEBHOOK_SECRET (or GITLAB_WEBHOOK_SECRET_FILE) "
            "to the secret token or the signing token of the GitLab webhook, or GITLAB_WEBHOOK_KEY"
        )
    if secret.startswith(SIGNING):
        try:
            key = base64.b64decode(secret.removeprefix(SIGNING), validate=True)
        except ValueError as error:
            raise ConfigError("the webhook secret starts with whsec_ but is not base64") from error
        if not key:
            raise ConfigError(
                "the webhook secret is whsec_ without a key: copy it again from GitLab"
            )
        return _SignatureVerifier(key)
    return _SecretVerifier(secret.encode())


@dataclass(frozen=True, slots=True, repr=False)
class _SecretVerifier:
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
class _SignatureVerifier:
    """Checks an HMAC-SHA256 over id, time and raw body."""

    key: bytes

    def check_headers(self, headers: Mapping[str, str], now: float) -> BodyCheck:
        """See _SecretVerifier."""
        for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
            if not headers.get(name):
                raise Rejected(
                    401, f"there is no {name} header: the webhook needs a signing token (GitLab 19)"
                )
        stamp = headers["webhook-timestamp"]
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
            raise Rejected(401, "the webhook-timestamp header is not a time")
        if abs(now - int(stamp)) > _MAX_SKEW:
            raise Rejected(401, "the webhook-timestamp is over 5 minutes off: check the clocks")
        signatures = list(filter(_SIGNATURE.fullmatch, headers["webhook-signature"].split(" ")))
        if not signatures:
            raise Rejected(401, "the webhook-signature header has no v1 signature")
        head = f"{headers['webhook-id']}.{stamp}.".encode("latin-1", "replace")
        return BodyCheck([hmac.new(self.key, head, hashlib.sha256)], signatures)


Verifier = _SecretVerifier | _SignatureVerifier


class DoorVerifier:
    """Checks a delivery by the secret of the project that its address names, else the shared one.

    No key is taken for a secret, and the shared secret not from an address that names a project.
    """

    def __init__(self, secret: str, keys: Sequence[str]) -> None:
        """Take the shared secret and the keys of projects' secrets.

        Raises ConfigError if there is neither, or if the secret is malformed.
        """
        self._shared = make_verifier(secret) if secret.strip() or not keys else None
        self._keys = keys

    def check_headers(
        self, headers: Mapping[str, str], now: float, project: str | None = None
    ) -> BodyCheck:
        """See _SecretVerifier. `project` is what the address names, as it was sent."""
        if not self._keys or project is None:
            if self._shared is None:
                raise Rejected(
                    401,
                    f"the webhook's address has to end with ?{PARAMETER}=ID, and its secret to be "
                    "that of the project: `sandpiper doctor --fix` sets both",
                )
            return self._shared.check_headers(headers, now)
        if not _PROJECT.fullmatch(project):
            raise Rejected(401, f"the webhook's address names no project's id after ?{PARAMETER}=")
        number, refusals, passed = int(project), list[Rejected](), list[BodyCheck]()
        for key in self._keys:
            try:
                verifier = make_verifier(derive_secret(key, number))
                passed.append(verifier.check_headers(headers, now))
            except Rejected as error:
                refusals.append(error)
        if not passed:
            raise refusals[0]
        macs = [mac for each in passed for mac in each.macs]
        # With an old plain key and a new signing one, either proves the secret.
        is_proven = any(not each.macs for each in passed)
        return BodyCheck([] if is_proven else macs, passed[0].signatures, number)
