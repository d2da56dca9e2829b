"""Verifies what GitLab signs: the id tokens of CI jobs and of people who sign in.

Both are signed with the same keys, and differ in their audience and their claims.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from worker.errors import QueueError, Rejected
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient

KEYS_PATH = "/oauth/discovery/keys"

TOTAL = 10.0
"""Seconds in which GitLab's keys have to have come."""

MAX_TOKEN = 16 * 1024
MAX_KEYS = 256 * 1024
LEEWAY = 60
FRESH = 3600.0
"""Seconds for which GitLab's keys are cached."""

PATIENCE = 30.0
"""Seconds between two attempts to fetch keys, so that forged tokens cause few requests."""


def fetch_keys(
    gitlab_url: str, transport: httpx.BaseTransport | None = None, total: float = TOTAL
) -> Any:
    """Fetch the JSON of the key set that GitLab publishes: one request without token or redirects,
    of at most `total` seconds. Raises a transient QueueError if GitLab does not return it."""
    url = gitlab_url.rstrip("/") + KEYS_PATH
    with _translate_errors(url):
        return json.loads(_fetch_body(url, transport, total))


def _fetch_body(url: str, transport: httpx.BaseTransport | None, total: float) -> bytes:
    body = bytearray()
    with (
        BoundedClient(total=total, timeout=5.0, transport=transport) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise ValueError(f"the answer is {response.status_code}")
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_KEYS:
                raise ValueError(f"the answer is larger than {MAX_KEYS} bytes")
    return bytes(body)


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        text = f"GitLab's keys: {describe_failure(error, url)}"
        raise QueueError(text, transient=True) from error
    except (ValueError, RecursionError) as error:
        is_text = isinstance(error, json.JSONDecodeError | RecursionError)
        why = "the answer is not JSON" if is_text else str(error) or type(error).__name__
        raise QueueError(f"GitLab's keys ({url}) cannot be had: {why}", transient=True) from error


class TokenVerifier:
    """Verifies id tokens. Thread-safe; may block while keys are fetched.

    `fetch` returns the JSON of GitLab's public keys, see `fetch_keys`. `issuer` is GitLab's URL as
    configured in GitLab itself.
    """

    def __init__(
        self,
        fetch: Callable[[], Any],
        issuer: str,
        audience: str,
        now: Callable[[], float],
    ) -> None:
        self._fetch_keys = fetch
        self._now = now
        self._registry = jwt.JWTClaimsRegistry(
            now=lambda: int(now()),
            leeway=LEEWAY,
            iss={"essential": True, "value": issuer.rstrip("/")},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )
        self._lock = threading.Lock()
        self._known: KeySet | None = None
        self._tried = self._fetched = float("-inf")

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token. Raises Rejected 401, or QueueError without keys."""
        if not token or len(token) > MAX_TOKEN or not token.isascii():
            raise Rejected(401, "there is no id token: send `Authorization: Bearer $ID_TOKEN`")
        try:
            decoded = self._decode(token)
            self._registry.validate(decoded.claims)
        except JoseError as error:
            raise Rejected(401, f"the id token is not valid: {_explain(error)}") from error
        except (ValueError, RecursionError) as error:
            raise Rejected(401, "the id token is not a JSON web token") from error
        return dict(decoded.claims)

    def _decode(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, self._get_keys(FRESH), algorithms=["RS256"])
        except InvalidKeyIdError:
            # GitLab may have rotated its keys in the meantime.
            return jwt.decode(token, self._get_keys(PATIENCE), algorithms=["RS256"])

    def _get_keys(self, max_age: float) -> KeySet:
        """Return GitLab's keys, at most `max_age` seconds old unless GitLab does not answer."""
        with self._lock:
            now = self._now()
            if self._known and now - self._fetched < max_age:
                return self._known
            if now - self._tried >= PATIENCE:
                self._tried = now
                self._renew(now)
            if self._known is None:
                raise QueueError("GitLab's keys could not be had a moment ago", transient=True)
            return self._known

    def _renew(self, now: float) -> None:
        try:
            self._known = _parse_keys(self._fetch_keys())
            self._fetched = now
        except QueueError:
            if self._known is None:
                raise


def _parse_keys(answer: Any) -> KeySet:
    try:
        return KeySet.import_key_set(answer)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise QueueError("GitLab's answer is no set of keys", transient=True) from error


def _explain(error: JoseError) -> str:
    return str(error.description or error.error)[:200]
