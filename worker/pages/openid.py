"""Asks GitLab who signs in: OpenID Connect's authorization code flow, with PKCE and a secret.

See https://docs.gitlab.com/integration/openid_connect_provider/. Only the scope `openid` is asked
for, and the token that GitLab gives is forgotten once it has told who somebody is.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worker.errors import QueueError, Rejected
from worker.safety.untrusted import one_line
from worker.transport.failures import describe_failure
from worker.transport.httpx_clients import BoundedClient
from worker.webhook.id_tokens import TokenVerifier

_TOTAL = 10.0
"""Seconds in which GitLab has to have answered one question."""

_MAX_ANSWER = 4 * 1024 * 1024
"""Bytes; somebody can be a member of thousands of groups."""

_CODE = re.compile(r"[A-Za-z0-9._~-]{1,512}", re.ASCII)
_USER = re.compile(r"[0-9]{1,19}", re.ASCII)
_NAME = 255


@dataclass(frozen=True, slots=True)
class Application:
    """Sandpiper as an OAuth application of GitLab's, and the group whose members may sign in.

    `gitlab_url` is where we reach GitLab, `issuer` the address under which browsers do, and which
    GitLab signs. `group` is a full path.
    """

    gitlab_url: str
    issuer: str
    client_id: str
    client_secret: str
    redirect_uri: str
    group: str


@dataclass(frozen=True, slots=True)
class _Person:
    """Somebody who has signed in: GitLab's id of the user, which never changes, and the name."""

    user_id: str
    name: str


class _Tokens(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    access_token: str = Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")
    id_token: str = Field(min_length=1)


class _User(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    sub: str
    preferred_username: str = ""
    nickname: str = ""
    groups: list[str] = []


_T = TypeVar("_T", _Tokens, _User)


class OpenIdClient:
    """Finds out who signs in. Thread-safe; blocks while GitLab is asked."""

    def __init__(
        self,
        application: Application,
        verifier: TokenVerifier,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._application = application
        self._verifier = verifier
        self._transport = transport

    def make_address(self, state: str, nonce: str, verifier: str) -> str:
        """Return the address at GitLab to which a browser goes to sign in."""
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "client_id": self._application.client_id,
            "redirect_uri": self._application.redirect_uri,
            "response_type": "code",
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{self._application.issuer.rstrip('/')}/oauth/authorize?{urlencode(query)}"

    def find_member(self, code: str, nonce: str, verifier: str) -> _Person:
        """Return who has the code, if that is a member of the group, directly or through a group
        above it.

        Raises Rejected: 400 for a code that GitLab does not take, 403 for who is no member, 503 if
        GitLab cannot be asked or does not know us.
        """
        tokens = self._fetch_tokens(code, verifier)
        claims = self._verify(tokens.id_token, nonce)
        user = self._fetch_user(tokens.access_token)
        if user.sub != claims["sub"]:
            raise Rejected(403, "GitLab names one user in the id token, and another as its owner")
        person = _Person(user.sub, one_line(user.preferred_username or user.nickname, _NAME))
        if not _is_member(user.groups, self._application.group):
            who = f"{person.name} (user {person.user_id})"
            raise Rejected(403, f"{who} is no member of {self._application.group}")
        return person

    def _fetch_tokens(self, code: str, verifier: str) -> _Tokens:
        if not _CODE.fullmatch(code):
            raise Rejected(400, "there is no code of GitLab's")
        status, answer = self._ask(
            "POST",
            "/oauth/token",
            data={
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._application.redirect_uri,
                "code_verifier": verifier,
            },
            auth=(self._application.client_id, self._application.client_secret),
        )
        if status != httpx.codes.OK:
            raise _explain_refusal(status, answer)
        return _parse(_Tokens, answer)

    def _verify(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims of an id token that is GitLab's, for us, and for this sign-in."""
        try:
            claims = self._verifier.verify(token)
        except QueueError as error:
            raise Rejected(503, str(error)) from error
        except Rejected as error:
            raise Rejected(403, f"what GitLab gave is not valid: {error}") from error
        for_others = isinstance(claims["aud"], list) and len(claims["aud"]) != 1
        if for_others or claims.get("azp", self._application.client_id) != (
            self._application.client_id
        ):
            raise Rejected(403, "the id token is for another application as well")
        if claims.get("nonce") != nonce:
            raise Rejected(403, "the id token is of another sign-in")
        if not isinstance(claims.get("sub"), str) or not _USER.fullmatch(claims["sub"]):
            raise Rejected(403, "the id token names no user")
        return claims

    def _fetch_user(self, access_token: str) -> _User:
        headers = {"authorization": f"Bearer {access_token}"}
        status, answer = self._ask("GET", "/oauth/userinfo", headers=headers)
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise Rejected(403, "GitLab does not say who this is: is the user blocked?")
        if status != httpx.codes.OK:
            raise Rejected(503, f"GitLab does not say who this is: {status}")
        return _parse(_User, answer)

    def _ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Return the status, and the JSON of the answer (None if it is none)."""
        url = self._application.gitlab_url.rstrip("/") + path
        body = bytearray()
        with (
            _translate_errors(url),
            BoundedClient(total=_TOTAL, timeout=5.0, transport=self._transport) as client,
            client.stream(method, url, **options) as response,
        ):
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER:
                    raise ValueError(f"the answer is larger than {_MAX_ANSWER} bytes")
        try:
            return response.status_code, json.loads(body)
        except (ValueError, RecursionError):
            return response.status_code, None


def _is_member(groups: list[str], group: str) -> bool:
    """Whether `group` is one of these full paths, which GitLab tells apart whatever their case."""
    return any(each.isascii() and each.lower() == group.lower() for each in groups)


def _explain_refusal(status: int, answer: Any) -> Rejected:
    """Return why GitLab gives no token."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if error == "invalid_grant":
        return Rejected(400, "GitLab does not take the code: it is used, too old, or not ours")
    if error in ("invalid_client", "unauthorized_client"):
        return Rejected(
            503,
            "GitLab does not know us: pages.sign_in.client_id and GITLAB_OIDC_CLIENT_SECRET have "
            "to be those of its OAuth application",
        )
    return Rejected(503, f"GitLab gives no token: {status} {one_line(str(error), 100)}")


def _parse(model: type[_T], answer: Any) -> _T:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        why = f"GitLab's answer has no usable {where}" if where else "the answer is not GitLab's"
        raise Rejected(503, why) from error


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise Rejected(503, f"a sign-in: {describe_failure(error, url)}") from error
    except ValueError as error:
        raise Rejected(503, f"GitLab ({url}) cannot be asked: {error}") from error
