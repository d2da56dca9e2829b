"""The id tokens that GitLab gives its CI jobs: who asks, proven by GitLab's signature.

A job has one by `id_tokens:` (wire-gitlab 6). Nothing in the request but the token is believed:
the job's script belongs to whoever wrote the merge request.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from worker.core.triggers import PipelineFailed
from worker.errors import QueueError, Rejected
from worker.webhook.events import Id, Path, Ref, Sha, Word

AUDIENCE = "sandpiper"
KEYS_PATH = "/oauth/discovery/keys"

MAX_TOKEN = 16 * 1024
MAX_KEYS = 256 * 1024
LEEWAY = 60
FRESH = 3600.0
"""Seconds that GitLab's keys are kept."""

PATIENCE = 30.0
"""Seconds between two attempts to fetch keys: a stranger's token must not make us hammer GitLab."""


class Keys(Protocol):
    """Where GitLab's public keys come from."""

    def fetch(self) -> Any:
        """The JSON of the key set. Raises QueueError, transient, if GitLab does not give it."""
        ...


class GitLabKeys:
    """The key set that GitLab publishes. One short request without a token; no redirects."""

    def __init__(
        self, gitlab_url: str, timeout: float = 5.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = gitlab_url.rstrip("/") + KEYS_PATH
        self._timeout = timeout
        self._transport = transport

    def fetch(self) -> Any:
        """See Keys."""
        with _translate_errors(self._url):
            return json.loads(self._fetch_body())

    def _fetch_body(self) -> bytes:
        body = bytearray()
        with (
            httpx.Client(timeout=self._timeout, transport=self._transport) as client,
            client.stream("GET", self._url) as response,
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
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise QueueError(f"GitLab's keys ({url}) cannot be had: {why}", transient=True) from error


def _parse_number(value: object) -> object:
    """Ids stand in the claims as text."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(str(value)) if digits else value


class Claims(BaseModel):
    """What GitLab says of the job that asks."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    project_id: Annotated[Id, BeforeValidator(_parse_number)]
    project_path: Path
    pipeline_id: Annotated[Id, BeforeValidator(_parse_number)]
    pipeline_source: Word = ""
    ref: Ref
    ref_type: Word = "branch"
    sha: Sha

    def make_trigger(self) -> PipelineFailed:
        """What the job asks for."""
        return PipelineFailed(self.project_id, self.pipeline_id, self.sha, self.ref, by_job=True)


class TokenReader:
    """Reads and checks id tokens; safe to share by threads, and blocking at times.

    `issuer` is GitLab's own idea of its URL.
    """

    def __init__(
        self,
        keys: Keys,
        issuer: str,
        audience: str,
        now: Callable[[], float],
    ) -> None:
        self._keys = keys
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

    def read(self, token: str) -> Claims:
        """The claims of a valid token. Raises Rejected 401; QueueError without keys."""
        if not token or len(token) > MAX_TOKEN or not token.isascii():
            raise Rejected(401, "there is no id token: send `Authorization: Bearer $ID_TOKEN`")
        try:
            decoded = self._decode(token)
            self._registry.validate(decoded.claims)
        except JoseError as error:
            raise Rejected(401, f"the id token is not valid: {_explain(error)}") from error
        except (ValueError, RecursionError, UnicodeError) as error:
            raise Rejected(401, "the id token is not a JSON web token") from error
        try:
            return Claims.model_validate(decoded.claims)
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise Rejected(401, f"the id token has no usable {where}: is it GitLab's?") from error

    def _decode(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, self._get_keys(FRESH), algorithms=["RS256"])
        except InvalidKeyIdError:
            # GitLab may have changed its keys since.
            return jwt.decode(token, self._get_keys(PATIENCE), algorithms=["RS256"])

    def _get_keys(self, max_age: float) -> KeySet:
        """GitLab's keys, fetched if they are older; the old ones if GitLab does not answer."""
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
            self._known = _parse_keys(self._keys.fetch())
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
