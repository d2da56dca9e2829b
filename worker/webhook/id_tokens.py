"""Verifies what GitLab signs, the id tokens of CI jobs and of people who sign in, and counts how
often a project's jobs ask.

Both are signed with the same keys, and differ in their audience and their claims.
"""

import hashlib
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from pydantic import ValidationError

from worker.errors import QueueError, Rejected
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient
from worker.webhook.events import Claims

_KEYS_PATH = "/oauth/discovery/keys"

TOTAL = 10.0
"""Seconds in which GitLab's keys have to have come."""

_MAX_TOKEN = 16 * 1024
MAX_KEYS = 256 * 1024
_LEEWAY = 60
FRESH = 3600.0
"""Seconds for which GitLab's keys are cached."""

PATIENCE = 30.0
"""Seconds between two attempts to fetch keys, so that forged tokens cause few requests."""


def fetch_keys(
    gitlab_url: str, transport: httpx.BaseTransport | None = None, total: float = TOTAL
) -> Any:
    """Fetch the JSON of the key set that GitLab publishes: one request without token or redirects,
    of at most `total` seconds. Raises a transient QueueError if GitLab does not return it."""
    url, body = gitlab_url.rstrip("/") + _KEYS_PATH, bytearray()
    try:
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
        return json.loads(body)
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
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer.rstrip("/")},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )
        self._lock = threading.Lock()
        self._known: KeySet | None = None
        self._tried = self._fetched = float("-inf")

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token. Raises Rejected 401, or QueueError without keys."""
        if not token or len(token) > _MAX_TOKEN or not token.isascii():
            raise Rejected(401, "there is no id token: send `Authorization: Bearer $ID_TOKEN`")
        try:
            try:
                decoded = jwt.decode(token, self._get_keys(FRESH), algorithms=["RS256"])
            except InvalidKeyIdError:
                # GitLab may have rotated its keys in the meantime.
                decoded = jwt.decode(token, self._get_keys(PATIENCE), algorithms=["RS256"])
            self._registry.validate(decoded.claims)
        except JoseError as error:
            why = str(error.description or error.error)[:200]
            raise Rejected(401, f"the id token is not valid: {why}") from error
        except (ValueError, RecursionError) as error:
            raise Rejected(401, "the id token is not a JSON web token") from error
        return dict(decoded.claims)

    def _get_keys(self, max_age: float) -> KeySet:
        """Return GitLab's keys, at most `max_age` seconds old unless GitLab does not answer."""
        with self._lock:
            now = self._now()
            if self._known and now - self._fetched < max_age:
                return self._known
            if now - self._tried >= PATIENCE:
                self._tried = now
                try:
                    self._known = _parse_keys(self._fetch_keys())
                    self._fetched = now
                except QueueError:
                    if self._known is None:
                        raise
            if self._known is None:
                raise QueueError("GitLab's keys could not be had a moment ago", transient=True)
            return self._known


def _parse_keys(answer: Any) -> KeySet:
    try:
        return KeySet.import_key_set(answer)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise QueueError("GitLab's answer is no set of keys", transient=True) from error


MAX_REMEMBERED = 20_000
"""The most used tokens that are remembered: more than three projects can use in an hour."""

PER_MINUTE = 60
"""How often the jobs of one project may ask in a minute."""

MINUTE = 60.0


class UsedTokens:
    """Remembers which id tokens have asked, and how often each project has. For one event loop.

    What is remembered is this process's alone: it bounds what a token that leaked out of a job can
    do. A trigger that is asked for twice is one trigger in any case.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._asked: OrderedDict[int, deque[float]] = OrderedDict()  # who asked last comes last

    def take(self, claims: Claims) -> bool:
        """Take a token; False if it has been taken. Raises Rejected 429 for a project too busy."""
        now = self._now()
        # Forget what has expired, and the oldest of what is too much to remember.
        while self._ends and (
            len(self._ends) >= MAX_REMEMBERED or next(iter(self._ends.values())) < now
        ):
            self._ends.popitem(last=False)
        while self._asked and next(iter(self._asked.values()))[-1] <= now - MINUTE:
            self._asked.popitem(last=False)
        if claims.jti in self._ends:
            return False
        asked = self._asked.get(claims.project_id) or deque()
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) >= PER_MINUTE:
            where = claims.project_path
            raise Rejected(429, f"the jobs of {where} have asked {PER_MINUTE} times in a minute")
        asked.append(now)
        self._asked[claims.project_id] = asked
        self._asked.move_to_end(claims.project_id)
        self._ends[claims.jti] = claims.exp + _LEEWAY
        return True

    def give_back(self, claims: Claims) -> None:
        """Let a token be taken again, because what it asked for was not queued."""
        self._ends.pop(claims.jti, None)


class TokenReader:
    """Reads the id tokens of CI jobs, as far as `verifier` finds them valid. Thread-safe."""

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier

    def read(self, token: str) -> Claims:
        """Return the claims of a valid token. Raises Rejected 401, or QueueError without keys."""
        claims = self._verifier.verify(token)
        # What tells a token without a `jti` from others is all that GitLab has signed.
        digest = hashlib.sha256(json.dumps(claims, sort_keys=True).encode()).hexdigest()
        try:
            return Claims.model_validate({"jti": digest, **claims})
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise Rejected(401, f"the id token has no usable {where}: is it GitLab's?") from error
