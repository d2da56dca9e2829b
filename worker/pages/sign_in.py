"""Signs operators in by GitLab: any member of the group that the settings name.

Nothing is kept here but in two cookies, signed with a key made from the store's. One lasts while a
browser is at GitLab, and binds what GitLab sends back to that browser. The other says who has
signed in; it is good for `FRESH` seconds, after which the next page leads through GitLab once more,
unseen by whoever is still signed in there and still a member.
"""

import base64
import binascii
import hmac
import json
import logging
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from worker.errors import Rejected, StoreError
from worker.pages import render
from worker.pages.openid import OpenIdClient
from worker.pages.render import make_message_page, make_page
from worker.safety.untrusted import one_line

FRESH = 300.0
"""Seconds after which GitLab is asked again whether somebody is still a member."""

SIGNED_IN = 8 * 3600.0
"""Seconds after which somebody has to sign in by hand again."""

PATIENCE = 600.0
"""Seconds that a sign-in may take at GitLab."""

PER_MINUTE = 60
"""How often GitLab is asked in a minute, whoever signs in."""

_MAX_REMEMBERED = 10_000
MAX_AT_ONCE = 2
SECONDS = 30.0
_MINUTE = 60.0

_PATHS = ("sessions", "sessions/report", "incidents", "tests")
"""The pages to which a sign-in leads back, below `pages.url`."""

_TO = re.compile(rf"({'|'.join(_PATHS)})(\?[A-Za-z0-9._~%&=+*/:@,!-]{{0,500}})?", re.ASCII)
_STATE = re.compile(r"[0-9a-f]{64}", re.ASCII)

_log = logging.getLogger("sandpiper.pages")


@dataclass(frozen=True, slots=True)
class _Operator:
    """Who has signed in. Times are in epoch seconds."""

    id: str
    user_id: str
    name: str
    signed_in_at: float
    checked_at: float


class SignIn:
    """The routes of the sign-in, and who has signed in.

    `url` is where browsers reach the pages. `load_key` returns the store's key; it may block and
    raise StoreError. `now` is in epoch seconds.
    """

    def __init__(
        self,
        url: str,
        client: OpenIdClient,
        load_key: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        self._url = url.rstrip("/")
        self._client, self._load_key, self._now = client, load_key, now
        path = urlsplit(self._url).path
        self._path = f"{path}/"
        # Browsers take the first kind from this very host alone; the second kind has a path.
        self._prefix = "__Secure-sandpiper-" if path else "__Host-sandpiper-"
        self._seals: list[tuple[Seal, Seal]] = []
        self._used = _Remembered()
        self._ended = _Remembered()
        self._asked: deque[float] = deque()
        self._threads = anyio.CapacityLimiter(MAX_AT_ONCE)

    def make_routes(self) -> list[Route]:
        """Make the routes, to be mounted at the root."""
        return [
            Route("/sign-in", self.answer_begin, methods=["GET"]),
            Route("/sign-in/callback", self.answer_callback, methods=["GET"]),
            Route("/sign-out", self.answer_sign_out, methods=["GET", "POST"]),
        ]

    # ------------------------------------------------------------------------- who has signed in

    async def prepare(self, request: Request) -> Response | None:
        """Load the key if the request needs it; return the answer that this cannot be done now."""
        if self._seals or self._session_cookie not in request.cookies:
            return None
        return await self._load_seals()

    async def _load_seals(self) -> Response | None:
        try:
            if not self._seals:
                key = await anyio.to_thread.run_sync(self._load_key, limiter=self._threads)
                self._seals.append((Seal(key, "sign-in begun"), Seal(key, "operator")))
            return None
        except StoreError as error:
            _log.warning("no sign-in: %s", error)
            return make_message_page(
                503, "Not now", "The store does not answer at the moment. Try it again."
            )

    def find_operator(self, request: Request) -> _Operator | None:
        """Return who has signed in, with a check at GitLab that is fresh; None for anybody else."""
        found = self._read_session(request)
        return found if found and self._now() < found.checked_at + FRESH else None

    def describe_operator(self, request: Request) -> tuple[str, str] | None:
        """Return the name of who has signed in, and where to sign out; None for anybody else."""
        found = self.find_operator(request)
        return (found.name, f"{self._url}/sign-out") if found else None

    def _read_session(self, request: Request) -> _Operator | None:
        """Return who has signed in in this browser, though the check at GitLab may be old."""
        kept = request.cookies.get(self._session_cookie, "")
        values = self._seals[0][1].open(kept) if kept and self._seals else None
        try:
            found = _Operator(**values) if values else None
        except TypeError:
            return None
        if found is None or self._ended.has(found.id, self._now()):
            return None
        return found if self._now() < found.signed_in_at + SIGNED_IN else None

    def refuse(self, request: Request, *, by_password: bool) -> Response:
        """Answer whoever is no operator: with the way to sign in, or, if somebody has signed in a
        while ago, by leading through GitLab."""
        query = request.url.query
        wanted = request.scope["path"].lstrip("/") + (f"?{query}" if query else "")
        to = wanted if _TO.fullmatch(wanted) else _PATHS[0]
        if before := self._read_session(request):
            return self._lead_to_gitlab(to, before.signed_in_at)
        links = {"Sign in with GitLab": f"{self._url}/sign-in?to={quote(to, safe='')}"}
        if by_password:
            links["Use the operators' token"] = "?password"
        return make_message_page(
            401, "Operators only", "This page is for those who run this Sandpiper.", links=links
        )

    # -------------------------------------------------------------------------------- the routes

    async def answer_begin(self, request: Request) -> Response:
        """Lead to GitLab."""
        if (unable := await self._load_seals()) is not None:
            return unable
        to = request.query_params.get("to", "")
        return self._lead_to_gitlab(to if _TO.fullmatch(to) else _PATHS[0], 0.0)

    def _lead_to_gitlab(self, to: str, signed_in_at: float) -> Response:
        seal, number = self._seals[0][0], secrets.token_hex(16)
        state = seal.derive("state", number)
        values = {"id": number, "to": to, "since": signed_in_at, "until": self._now() + PATIENCE}
        address = self._client.make_address(
            state, seal.derive("nonce", number), seal.derive("verifier", number)
        )
        answer = RedirectResponse(address, 303, headers=dict(render.PRIVATE))
        self._set_cookie(answer, self._name_begun(state), seal.close(values), PATIENCE)
        return answer

    async def answer_callback(self, request: Request) -> Response:
        """Take what GitLab sends back, and let a member in."""
        state = request.query_params.get("state", "")
        try:
            if (unable := await self._load_seals()) is not None:
                return unable
            begun = self._take_begun(request, state)
            if error := request.query_params.get("error", ""):
                raise Rejected(403, f"GitLab says {one_line(error, 60)!r}")
            answer = await self._finish(begun, request.query_params.get("code", ""))
        except Rejected as refusal:
            _log.log(_LEVELS.get(refusal.status, logging.INFO), "sign-in refused: %s", refusal)
            # What GitLab said is in the log alone.
            title, text = _SENTENCES.get(refusal.status, _SENTENCES[400])
            more = {"retry-after": "60"} if refusal.status == 429 else {}
            links = {"Sign in with GitLab": f"{self._url}/sign-in"}
            answer = make_message_page(refusal.status, title, text, more, links)
            if refusal.status == 403:
                self._drop_cookie(answer, self._session_cookie)
        if _STATE.fullmatch(state) and self._name_begun(state) in request.cookies:
            self._drop_cookie(answer, self._name_begun(state))
        return answer

    def _take_begun(self, request: Request, state: str) -> Mapping[str, Any]:
        """Return what the cookie says of the sign-in that GitLab answers. Raises Rejected 400 for
        one that was not begun in this browser, or too long ago, or that is over."""
        seal = self._seals[0][0]
        is_state = bool(_STATE.fullmatch(state))
        kept = request.cookies.get(self._name_begun(state), "") if is_state else ""
        begun = seal.open(kept)
        if begun is None or not hmac.compare_digest(seal.derive("state", begun["id"]), state):
            raise Rejected(400, "it was not begun in this browser")
        if self._now() >= begun["until"]:
            raise Rejected(400, "it has taken too long")
        if not self._used.add(begun["id"], begun["until"], self._now()):
            raise Rejected(400, "it is over already")
        return begun

    async def _finish(self, begun: Mapping[str, Any], code: str) -> Response:
        now = self._now()
        while self._asked and self._asked[0] <= now - _MINUTE:
            self._asked.popleft()
        if len(self._asked) >= PER_MINUTE:
            raise Rejected(429, f"there were {PER_MINUTE} in a minute")
        self._asked.append(now)
        seal, number = self._seals[0][0], begun["id"]
        nonce, verifier = seal.derive("nonce", number), seal.derive("verifier", number)
        with anyio.move_on_after(SECONDS):
            person = await anyio.to_thread.run_sync(
                self._client.find_member,
                code,
                nonce,
                verifier,
                limiter=self._threads,
                abandon_on_cancel=True,
            )
            now = self._now()
            since = begun["since"] or now
            _log.info("signed in: %s (user %s)", person.name, person.user_id)
            values = {
                "id": secrets.token_hex(16),
                "user_id": person.user_id,
                "name": person.name,
                "signed_in_at": since,
                "checked_at": now,
            }
            answer = RedirectResponse(
                f"{self._url}/{begun['to']}", 303, headers=dict(render.PRIVATE)
            )
            sealed = self._seals[0][1].close(values)
            self._set_cookie(answer, self._session_cookie, sealed, since + SIGNED_IN - now)
            return answer
        raise Rejected(503, f"GitLab did not answer within {SECONDS:g} s")

    async def answer_sign_out(self, request: Request) -> Response:
        """Ask whether to sign out, or do so. Other sites cannot: their forms bring no cookie."""
        if (unable := await self._load_seals()) is not None:
            return unable
        found = self._read_session(request)
        if request.method != "POST" or found is None:
            who = found.name if found else ""
            return make_page("sign_out", has_form=True, who=who, home=f"{self._url}/")
        self._ended.add(found.id, found.signed_in_at + SIGNED_IN, self._now())
        answer = RedirectResponse(f"{self._url}/", 303, headers=dict(render.PRIVATE))
        self._drop_cookie(answer, self._session_cookie)
        return answer

    # ------------------------------------------------------------------------------- the cookies

    @property
    def _session_cookie(self) -> str:
        return f"{self._prefix}operator"

    def _name_begun(self, state: str) -> str:
        """Return the name of one sign-in's cookie, so that two tabs do not disturb each other."""
        return f"{self._prefix}sign-in-{state[:16]}"

    def _set_cookie(self, answer: Response, name: str, value: str, seconds: float) -> None:
        answer.set_cookie(
            name,
            value,
            max_age=max(0, int(seconds)),
            path=self._path,
            secure=True,
            httponly=True,
            samesite="lax",
        )

    def _drop_cookie(self, answer: Response, name: str) -> None:
        self._set_cookie(answer, name, "", 0)


class _Remembered:
    """Names that are remembered until a time, the oldest forgotten first. Thread-safe."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def add(self, name: str, until: float, now: float) -> bool:
        """Remember a name; False if it is remembered already."""
        with self._lock:
            while self._ends and (
                len(self._ends) >= _MAX_REMEMBERED or next(iter(self._ends.values())) < now
            ):
                self._ends.popitem(last=False)
            if name in self._ends:
                return False
            self._ends[name] = until
            return True

    def has(self, name: str, now: float) -> bool:
        """Whether a name is remembered."""
        return self._ends.get(name, now) > now


_SENTENCES: Mapping[int, tuple[str, str]] = {
    400: (
        "Not signed in",
        "This sign-in was not begun in this browser, or it is over, or it has taken too long. "
        "Begin again.",
    ),
    403: (
        "Not signed in",
        "GitLab does not say that you may see this: you have to be a member of the group that "
        "this Sandpiper lets in.",
    ),
    429: ("Not now", "Too many people sign in at the moment. Try it again in a minute."),
    503: ("Not now", "GitLab cannot be asked who you are. Try it again; the log says why."),
}
_LEVELS = {429: logging.WARNING, 503: logging.ERROR}


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
