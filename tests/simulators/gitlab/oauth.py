"""GitLab as an OpenID Connect provider: the endpoints that sign people in to an application.

As strict as GitLab's Doorkeeper, and stricter where a careless client would get away with it: PKCE
is demanded, and a parameter that nobody needs is refused. See
https://docs.gitlab.com/integration/openid_connect_provider/.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

from tests.simulators.gitlab.oidc import KEYS_PATH, Issuer
from worker.lab.gitlab.protocol import Answer, Wire
from worker.lab.gitlab.state import User

SESSION = "_gitlab_session"
CODE_SECONDS = 600.0
PATHS = {
    "/.well-known/openid-configuration",
    "/oauth/authorize",
    "/oauth/token",
    "/oauth/userinfo",
    "/users/sign_in",
}
_AUTHORIZE = {
    *("client_id", "redirect_uri", "response_type", "scope", "state", "nonce"),
    *("code_challenge", "code_challenge_method"),
}
_TOKEN = {"grant_type", "code", "redirect_uri", "code_verifier"}


@dataclass(frozen=True, slots=True)
class Application:
    """An OAuth application: confidential, with the scope `openid`."""

    client_id: str
    client_secret: str
    redirect_uri: str


@dataclass(slots=True)
class Grant:
    """A code, or the access token that was given for it."""

    application: Application
    user: User
    nonce: str
    challenge: str
    redirect_uri: str
    made_at: float
    is_used: bool = False


@dataclass
class Provider:
    """Signs in whoever has a session in the browser.

    `groups` are full paths of groups with the ids of their direct members. `id_claims` replace
    claims of the id tokens (None: leaves one out), `user_claims` those of userinfo. `forge` makes
    an id token from its claims in another way than GitLab does.
    """

    issuer: Issuer
    url: str = ""
    applications: dict[str, Application] = field(default_factory=dict)
    sessions: dict[str, User] = field(default_factory=dict)
    groups: dict[str, set[int]] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    codes: dict[str, Grant] = field(default_factory=dict)
    tokens: dict[str, Grant] = field(default_factory=dict)
    id_claims: dict[str, Any] = field(default_factory=dict)
    user_claims: dict[str, Any] = field(default_factory=dict)
    forge: Callable[[dict[str, Any]], str] | None = None
    strange: list[str] = field(default_factory=list)
    now: Callable[[], float] = time.time

    def add_application(self, redirect_uri: str) -> Application:
        """Register an application."""
        made = Application(secrets.token_hex(32), f"gloas-{secrets.token_hex(32)}", redirect_uri)
        self.applications[made.client_id] = made
        return made

    def sign_in(self, user: User) -> str:
        """Sign somebody in to GitLab; returns the value of the browser's cookie SESSION."""
        session = secrets.token_hex(16)
        self.sessions[session] = user
        return session

    def answer(self, wire: Wire) -> Answer:
        """Answer a request for one of PATHS."""
        if wire.path == "/.well-known/openid-configuration" and wire.method == "GET":
            return Answer(200, self.describe())
        if wire.path == "/oauth/authorize" and wire.method == "GET":
            return self._authorize(wire)
        if wire.path == "/oauth/token" and wire.method == "POST":
            return self._give_token(wire)
        if wire.path == "/oauth/userinfo" and wire.method == "GET":
            return self._tell_user(wire)
        if wire.path == "/users/sign_in" and wire.method == "GET":
            return Answer(200, {"page": "the form that asks for a password"})
        return self._refuse(404, f"{wire.method} {wire.path} is not served")

    def describe(self) -> dict[str, Any]:
        """Return what clients may discover."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/oauth/authorize",
            "token_endpoint": f"{self.url}/oauth/token",
            "userinfo_endpoint": f"{self.url}/oauth/userinfo",
            "jwks_uri": f"{self.url}{KEYS_PATH}",
            "scopes_supported": ["api", "read_api", "read_user", "openid", "profile", "email"],
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["plain", "S256"],
        }

    def _authorize(self, wire: Wire) -> Answer:
        query = self._parse(wire.query, _AUTHORIZE)
        application = self.applications.get(query.get("client_id", ""))
        user = self.sessions.get(_read_cookie(wire.headers, SESSION))
        if user is None:
            return Answer(302, headers={"location": f"{self.url}/users/sign_in"})
        if application is None or query.get("redirect_uri") != application.redirect_uri:
            # Nobody is sent to an address that is not the application's own.
            return self._refuse(401, "the client or its redirect URI is unknown")
        if set(query) != _AUTHORIZE or query["response_type"] != "code":
            return self._refuse(400, f"odd parameters: {sorted(query)}")
        if query["scope"] != "openid" or query["code_challenge_method"] != "S256":
            return self._refuse(400, f"scope {query['scope']}, {query['code_challenge_method']}")
        if min(len(query["state"]), len(query["nonce"])) < 32 or len(query["code_challenge"]) != 43:
            return self._refuse(400, "state, nonce or code_challenge can be guessed")
        code = secrets.token_hex(32)
        self.codes[code] = Grant(
            *(application, user, query["nonce"], query["code_challenge"]),
            *(query["redirect_uri"], self.now()),
        )
        back = urlencode({"code": code, "state": query["state"]})
        return Answer(302, headers={"location": f"{application.redirect_uri}?{back}"})

    def _give_token(self, wire: Wire) -> Answer:
        if wire.headers.get("content-type") != "application/x-www-form-urlencoded":
            return self._refuse(400, "the body is no form")
        fields = self._parse(wire.body.decode(), _TOKEN)
        if fields.get("grant_type") != "authorization_code" or set(fields) != _TOKEN:
            return self._refuse(400, f"odd fields: {sorted(fields)}")
        client_id, secret = _read_basic(wire.headers)
        application = self.applications.get(client_id)
        if application is None or secret != application.client_secret:
            return Answer(401, {"error": "invalid_client", "error_description": "unknown client"})
        grant = self.codes.get(fields["code"])
        if grant is None or not self._is_right(grant, application, fields):
            return Answer(400, {"error": "invalid_grant", "error_description": "not valid"})
        grant.is_used = True
        access_token = secrets.token_hex(32)
        self.tokens[access_token] = grant
        return Answer(
            200,
            {
                "access_token": access_token,
                "token_type": "Bearer",
                "expires_in": 7200,
                "refresh_token": secrets.token_hex(32),
                "scope": "openid",
                "created_at": int(self.now()),
                "id_token": self.make_id_token(grant),
            },
            {"cache-control": "no-store"},
        )

    def _is_right(self, grant: Grant, application: Application, fields: Mapping[str, str]) -> bool:
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        if grant.is_used:
            # A code that comes twice takes what it gave with it.
            self.tokens = {name: each for name, each in self.tokens.items() if each is not grant}
        return (
            not grant.is_used
            and grant.application == application
            and grant.redirect_uri == fields["redirect_uri"]
            and self.now() < grant.made_at + CODE_SECONDS
            and base64.urlsafe_b64encode(digest).decode().rstrip("=") == grant.challenge
        )

    def make_id_token(self, grant: Grant) -> str:
        """Make the id token of somebody who has signed in."""
        now = int(self.now())
        claims = {
            "iss": self.url,
            "sub": str(grant.user.id),
            "aud": grant.application.client_id,
            "exp": now + 120,
            "iat": now,
            "nonce": grant.nonce,
            "auth_time": now - 60,
            "groups_direct": self._list_direct(grant.user),
        } | self.id_claims
        sign = self.forge or self.issuer.sign
        return sign({name: each for name, each in claims.items() if each is not None})

    def _tell_user(self, wire: Wire) -> Answer:
        scheme, _, token = wire.headers.get("authorization", "").partition(" ")
        grant = self.tokens.get(token) if scheme == "Bearer" else None
        if grant is None or grant.user.id in self.blocked:
            return Answer(401, {"error": "invalid_token"})
        direct = self._list_direct(grant.user)
        # Who is a member of a group is one of all below it.
        groups = [
            path for path in self.groups if any(f"{path}/".startswith(f"{up}/") for up in direct)
        ]
        known = {
            "sub": str(grant.user.id),
            "name": grant.user.name,
            "nickname": grant.user.username,
            "preferred_username": grant.user.username,
            "profile": f"{self.url}/{grant.user.username}",
            "groups": groups,
            "https://gitlab.org/claims/groups/developer": direct,
        } | self.user_claims
        return Answer(200, {name: each for name, each in known.items() if each is not None})

    def _list_direct(self, user: User) -> list[str]:
        return [path for path, members in self.groups.items() if user.id in members]

    def _parse(self, text: str, known: set[str]) -> dict[str, str]:
        found = parse_qs(text, keep_blank_values=True)
        if odd := [name for name, values in found.items() if name not in known or len(values) > 1]:
            self.strange.append(f"odd parameters: {odd}")
        return {name: values[-1] for name, values in found.items()}

    def _refuse(self, status: int, why: str) -> Answer:
        """Refuse what no client of ours should ask."""
        self.strange.append(why)
        return Answer(status, {"error": "invalid_request", "error_description": why})


def _read_cookie(headers: Mapping[str, str], name: str) -> str:
    pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def _read_basic(headers: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, packed = headers.get("authorization", "").partition(" ")
    if scheme != "Basic":
        return "", ""
    client_id, _, secret = base64.b64decode(packed).decode().partition(":")
    return client_id, secret
