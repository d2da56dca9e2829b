"""Signing in by GitLab: who gets in, and what gets nobody in."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.simulators.gitlab import GitLabSim, User
from tests.simulators.gitlab.oauth import SESSION
from tests.unit.pages.pages import KEY, TOKEN
from tests.web_client import Browser, Line
from worker.conversation.limits import Limits
from worker.jobs.verdict_days import read_days
from worker.pages.http import Pages
from worker.pages.openid import Application, OpenIdClient
from worker.pages.render import make_home_route
from worker.pages.sign_in import FRESH, PATIENCE, PER_MINUTE, SIGNED_IN, Seal, Signer, SignIn
from worker.sessions.folder import FolderStore
from worker.webhook.id_tokens import TokenVerifier, fetch_keys

pytestmark = pytest.mark.attack("sign-in")
URL = "https://sandpiper.example"
LIST, REPORT = f"{URL}/sessions", f"{URL}/sessions/report"
GROUP = "acme/ops"
SECRET = "k" * 64
OPERATOR = "__Host-sandpiper-operator"


@pytest.fixture(scope="module")
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running
        assert running.unexpected_requests == []


class Door:
    """The pages with a sign-in by the simulated GitLab, at a moment that the test moves."""

    def __init__(self, sim: GitLabSim, folder: Path, url: str = URL) -> None:
        self.sim, self.url = sim, url
        self.past = 0.0
        self.provider = sim.provider
        for spoilt in (sim.provider.id_claims, sim.provider.user_claims, sim.provider.groups):
            spoilt.clear()
        sim.provider.forge, sim.provider.now = None, self.now
        sim.provider.blocked.clear()
        sim.clear_faults()
        self.user = sim.add_user("mara")
        self.provider.groups[GROUP] = {self.user.id}
        self.registered = self.provider.add_application(f"{url}/sign-in/callback")
        application = Application(
            *(sim.url, sim.url, self.registered.client_id, self.registered.client_secret),
            *(f"{url}/sign-in/callback", GROUP),
        )
        keys = partial(fetch_keys, sim.url)
        verifier = TokenVerifier(keys, sim.url, self.registered.client_id, self.now)
        self.store = FolderStore(folder)
        sign_in = SignIn(url, OpenIdClient(application, verifier), lambda: SECRET, self.now)
        pages = Pages(
            *(lambda: self.store, lambda: Signer(SECRET), TOKEN, Limits(), self.now, read_days),
            sign_in=sign_in,
        )
        home = make_home_route(url, can_sign_in=True, has_token=True)
        app = Starlette(routes=[home, *pages.make_routes()])
        self.client = TestClient(app, cookies=None, follow_redirects=False)

    def now(self) -> float:
        return time.time() + self.past

    def open_browser(self, user: User | None = None) -> Browser:
        """Open a browser in which somebody is signed in at GitLab."""
        browser = Browser({self.url: self.client, self.sim.url: Line(self.sim.url)})
        browser.cookies[self.sim.url][SESSION] = self.provider.sign_in(user or self.user)
        return browser

    def sign_in(self, browser: Browser, to: str = "sessions") -> httpx.Response:
        return browser.get(f"{self.url}/sign-in?to={quote(to, safe='')}")

    def begin(self, browser: Browser) -> str:
        """Sign in up to what GitLab sends back; returns the address of that."""
        there = browser.step(f"{self.url}/sign-in").headers["location"]
        return browser.step(there).headers["location"]


@pytest.fixture
def door(sim: GitLabSim, tmp_path: Path) -> Door:
    return Door(sim, tmp_path)


def test_so_one_comes_to_the_incidents(door: Door) -> None:
    browser = door.open_browser()
    assert browser.get(f"{URL}/incidents?project=a/b").status_code == 401
    assert door.sign_in(browser, "incidents?project=a/b").status_code == 200
    assert browser.visited[-1] == f"{URL}/incidents?project=a/b"


def test_a_member_of_the_group_signs_in_and_comes_back_to_the_page(door: Door) -> None:
    browser = door.open_browser()
    asked = browser.get(f"{REPORT}?days=90")
    assert asked.status_code == 401
    assert "www-authenticate" not in asked.headers
    assert f"{URL}/sign-in?to=sessions%2Freport%3Fdays%3D90" in asked.text
    assert door.sign_in(browser, "sessions/report?days=90").status_code == 200
    assert browser.visited[-1] == f"{REPORT}?days=90"
    assert browser.get(LIST).status_code == 200
    assert list(browser.cookies[URL]) == [OPERATOR]
    assert "code=" not in browser.visited[-1]


def test_the_operators_token_still_opens_the_pages(door: Door) -> None:
    assert door.client.get("/sessions", auth=("me", TOKEN)).status_code == 200
    assert door.client.get("/sessions", auth=("me", "x" * 24)).status_code == 401
    challenged = door.client.get("/sessions?password")
    assert (challenged.status_code, "www-authenticate" in challenged.headers) == (401, True)


GROUPS: list[tuple[str, list[str] | None, bool]] = [
    ("the group", ["acme/ops"], True),
    ("the group among others", ["a", "acme", "acme/ops", "z/z"], True),
    ("the group in other case, which is the same for GitLab", ["ACME/Ops"], True),
    ("no group", [], False),
    ("no claim of groups", None, False),
    ("a group below it alone", ["acme/ops/night"], False),
    ("a group above it whose groups are not named", ["acme"], False),
    ("a name that begins alike", ["acme/ops-evil", "acme/ops2", "acme/opsx/ops"], False),
    ("a name that ends alike", ["evil/acme/ops", "xacme/ops"], False),
    ("the same name elsewhere", ["ops", "evil/ops"], False),
    ("with a slash around", ["/acme/ops", "acme/ops/", "acme//ops"], False),
    ("with blanks or a line break", [" acme/ops", "acme/ops ", "acme/ops\n"], False),
    ("with letters that look alike or fold to it", ["acme/op\u017f", "acm\u0435/ops"], False),
    ("escaped", ["acme%2Fops", "acme%2fops"], False),
]


@pytest.mark.parametrize(("groups", "is_let_in"), [row[1:] for row in GROUPS], ids=lambda _: "")
def test_the_group_is_compared_by_its_full_path(
    door: Door, groups: list[str] | None, is_let_in: bool
) -> None:
    door.provider.user_claims["groups"] = groups
    browser = door.open_browser()
    assert door.sign_in(browser).status_code == (200 if is_let_in else 403)
    assert browser.get(LIST).status_code == (200 if is_let_in else 401)


def test_who_is_a_member_of_a_group_above_is_one_of_the_group(door: Door) -> None:
    boss, other = door.sim.add_user("boss"), door.sim.add_user("other")
    door.provider.groups |= {"acme": {boss.id}, "acme/ops/night": {other.id}}
    assert door.sign_in(door.open_browser(boss)).status_code == 200
    assert door.sign_in(door.open_browser(other)).status_code == 403


def forge_unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    packed = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts)
    return b".".join([*packed, b""]).decode()


def forge_with_own_key(claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048, auto_kid=True)
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


def make_forger(sim: GitLabSim) -> Callable[[dict[str, Any]], str]:
    """Make a forger who signs with GitLab's public key as if it were a shared secret."""
    public = json.dumps(sim.issuer.get_public_keys()["keys"][0])
    return lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(public))


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://gitlab.evil.example"},
        {"iss": None},
        {"aud": "another-application"},
        {"aud": None},
        {"aud": ["another-application"]},
        {"exp": 1},
        {"exp": None},
        {"nonce": "0" * 64},
        {"nonce": None},
        {"nonce": ["0" * 64]},
        {"azp": "another-application"},
        {"sub": None},
        {"sub": ""},
        {"sub": "1"},
        {"sub": 1},
        {"sub": "project_path:acme/evil:ref_type:branch:ref:main"},
        {"nbf": 4_000_000_000},
    ],
    ids=str,
)
def test_an_id_token_with_other_claims_lets_nobody_in(door: Door, claims: dict[str, Any]) -> None:
    door.provider.id_claims |= claims
    browser = door.open_browser()
    assert door.sign_in(browser).status_code == 403
    assert OPERATOR not in browser.cookies[URL]


@pytest.mark.parametrize("kind", ["none", "own key", "public key as secret", "no token"])
def test_an_id_token_that_gitlab_has_not_signed_lets_nobody_in(door: Door, kind: str) -> None:
    door.provider.forge = {
        "none": forge_unsigned,
        "own key": forge_with_own_key,
        "public key as secret": make_forger(door.sim),
        "no token": lambda claims: "eyJ.x.y",
    }[kind]
    assert door.sign_in(door.open_browser()).status_code == 403


def test_an_id_token_for_two_applications_lets_nobody_in(door: Door) -> None:
    door.provider.id_claims["aud"] = [door.registered.client_id, "another-application"]
    assert door.sign_in(door.open_browser()).status_code == 403


@pytest.mark.parametrize("sub", ["1", None, 7])
def test_a_user_of_another_id_than_the_tokens_is_not_let_in(door: Door, sub: Any) -> None:
    door.provider.user_claims["sub"] = sub
    assert door.sign_in(door.open_browser()).status_code in (403, 503)


def test_what_gitlab_sends_back_is_taken_in_the_browser_that_asked_and_once(door: Door) -> None:
    browser = door.open_browser()
    back = door.begin(browser)
    assert door.open_browser().get(back).status_code == 400
    kept = dict(browser.cookies[URL])
    assert browser.get(back).status_code == 200
    del browser.cookies[URL][OPERATOR]
    browser.cookies[URL] |= kept
    assert browser.step(back).status_code == 400
    assert OPERATOR not in browser.cookies[URL]


def test_a_code_is_taken_once_also_by_another_sign_in(door: Door) -> None:
    first, second = door.open_browser(), door.open_browser()
    code = parse_qs(urlsplit(door.begin(first)).query)["code"][0]
    state = parse_qs(urlsplit(door.begin(second)).query)["state"][0]
    address = f"{URL}/sign-in/callback?code={code}&state={state}"
    assert second.get(address).status_code == 400
    assert OPERATOR not in second.cookies[URL]


def test_nobody_is_signed_in_as_somebody_else_by_a_link(door: Door) -> None:
    attacker, victim = door.open_browser(), door.open_browser()
    back = door.begin(attacker)
    assert victim.get(back).status_code == 400
    door.begin(victim)  # While the victim signs in, too.
    assert victim.get(back).status_code == 400
    assert OPERATOR not in victim.cookies[URL]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=1",
        "state=",
        "code=1&state=" + "0" * 64,
        "code=1&state=" + "0" * 63 + "%0a",
        "code=&state={state}",
        "code=a%20b&state={state}",
        "code=" + "a" * 600 + "&state={state}",
        "state={state}",
        "code=1&state={state}x",
        "code=1&state={upper}",
        "error=access_denied&state=" + "0" * 64,
    ],
)
def test_an_odd_answer_of_gitlabs_is_refused_in_words(door: Door, query: str) -> None:
    browser = door.open_browser()
    state = parse_qs(urlsplit(door.begin(browser)).query)["state"][0]
    query = query.replace("{state}", state).replace("{upper}", state.upper())
    answer = browser.get(f"{URL}/sign-in/callback?{query}")
    assert answer.status_code == 400
    assert "Begin again." in answer.text


def test_an_error_of_gitlabs_is_told_without_its_text(door: Door) -> None:
    browser = door.open_browser()
    state = parse_qs(urlsplit(door.begin(browser)).query)["state"][0]
    query = f"error=access_denied&error_description=%3Cscript%3Ecall+us&state={state}"
    answer = browser.get(f"{URL}/sign-in/callback?{query}")
    assert (answer.status_code, "call us" in answer.text) == (403, False)


def test_a_sign_in_ends_after_ten_minutes(door: Door) -> None:
    browser = door.open_browser()
    back = door.begin(browser)
    door.past = PATIENCE + 1
    assert browser.get(back).status_code == 400


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "sessions//evil.example",
        "sessions/../../evil",
        "sessions?x=1\r\nset-cookie:a=b",
        "sessions#@evil.example",
        "sessions/report/../x",
        "sessions.evil.example",
        ".evil.example",
        "@evil.example/sessions",
        "",
        "sign-out",
    ],
)
def test_a_sign_in_leads_nowhere_but_to_the_operators_pages(door: Door, to: str) -> None:
    browser = door.open_browser()
    assert door.sign_in(browser, to).status_code == 200
    assert (browser.left_to, browser.visited[-1]) == ("", LIST)


def test_a_member_who_was_removed_is_out_minutes_later(door: Door) -> None:
    browser = door.open_browser()
    door.sign_in(browser)
    door.provider.groups[GROUP].clear()
    door.past = FRESH - 10
    assert browser.get(LIST).status_code == 200
    door.past = FRESH + 1
    assert browser.get(LIST).status_code == 403
    assert OPERATOR not in browser.cookies[URL]
    door.past = 0.0
    assert browser.get(LIST).status_code == 401


@pytest.mark.parametrize("what", ["blocked", "renamed", "signed out at GitLab"])
def test_who_is_no_member_any_more_is_out_minutes_later(door: Door, what: str) -> None:
    browser = door.open_browser()
    door.sign_in(browser)
    if what == "blocked":
        door.provider.blocked.add(door.user.id)
    elif what == "renamed":
        door.provider.groups["acme/operations"] = door.provider.groups.pop(GROUP)
    else:
        door.provider.sessions.clear()
    door.past = FRESH + 1
    assert "Skip to" not in browser.get(LIST).text or browser.visited[-1] != LIST
    assert browser.step(LIST).status_code != 200


def test_who_is_still_a_member_notices_nothing(door: Door) -> None:
    browser = door.open_browser()
    door.sign_in(browser)
    for past in (FRESH + 1, 3 * FRESH, SIGNED_IN - 10):
        door.past = past
        assert browser.get(f"{LIST}?project=7").status_code == 200
        assert browser.visited[-1] == f"{LIST}?project=7"
    door.past = SIGNED_IN + 1
    assert browser.get(LIST).status_code == 401


def test_two_tabs_can_be_led_through_gitlab_at_once(door: Door) -> None:
    browser = door.open_browser()
    one, two = door.begin(browser), door.begin(browser)
    assert browser.get(one).status_code == 200
    assert browser.get(two).status_code == 200


def test_after_a_sign_out_the_cookie_is_worth_nothing(door: Door) -> None:
    browser = door.open_browser()
    door.sign_in(browser)
    kept = dict(browser.cookies[URL])
    page = browser.get(f"{URL}/sign-out")
    assert "You are signed in as mara." in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    # A form on another site brings no cookie, and ends nothing.
    elsewhere = door.open_browser()
    assert elsewhere.step(f"{URL}/sign-out", "POST").status_code == 200
    assert browser.step(f"{URL}/sign-out", "POST").headers["location"] == f"{URL}/"
    assert browser.cookies[URL] == {}
    assert browser.get(LIST).status_code == 401
    browser.cookies[URL] |= kept
    assert browser.step(LIST).status_code == 401


def test_no_cookie_of_ones_own_making_lets_anybody_in(door: Door) -> None:
    browser = door.open_browser()
    door.begin(browser)
    (begun,) = browser.cookies[URL].values()
    now = time.time()
    values = {"id": "1", "user_id": "1", "name": "x", "signed_in_at": now, "checked_at": now}
    link = Signer(SECRET).sign(KEY.session_id, int(now) + 60)
    packed = base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")
    door.sign_in(browser)
    true = browser.cookies[URL][OPERATOR]
    forged = [
        *(begun, link, f"{packed}.{link.partition('.')[2]}", f"{packed}.{'0' * 64}", packed),
        *(Seal(SECRET, "sign-in begun").close(values), Seal("x", "operator").close(values)),
        *(Seal(SECRET, "operator").close({"id": "1"}), "", "x" * 3000, f"{packed}.", "."),
        *(f"{packed}.{true.partition('.')[2]}", true[:-1], true + "0", true.upper()),
    ]
    for cookie in forged:
        browser.cookies[URL] = {OPERATOR: cookie}
        assert browser.step(LIST).status_code == 401, cookie
    browser.cookies[URL] = {OPERATOR: true}
    assert browser.step(LIST).status_code == 200


def test_whoever_has_a_link_to_a_session_gains_nothing(door: Door) -> None:
    link = Signer(SECRET).sign(KEY.session_id, int(time.time()) + 600)
    for address in ("/sessions", "/sessions/report"):
        for header in ({}, {"authorization": f"Bearer {link}"}, {"cookie": f"{OPERATOR}={link}"}):
            assert door.client.get(f"{address}?sig={link}", headers=header).status_code == 401


def test_gitlab_is_asked_sixty_times_a_minute_at_most(door: Door) -> None:
    browser = door.open_browser()
    for _ in range(PER_MINUTE):
        state = parse_qs(urlsplit(browser.step(f"{URL}/sign-in").headers["location"]).query)
        browser.step(f"{URL}/sign-in/callback?code=junk!&state={state['state'][0]}")
    asked = len(door.sim.requests)
    back = door.begin(browser)
    answer = browser.get(back)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert [each.path for each in door.sim.requests[asked:]] == ["/oauth/authorize"]
    assert door.client.get("/sessions", auth=("me", TOKEN)).status_code == 200
    door.past = 61.0
    assert door.sign_in(browser).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/oauth/token", 500), ("/oauth/token", 404), ("/oauth/userinfo", 502)],
)
def test_a_gitlab_that_does_not_answer_is_told(door: Door, path: str, status: int) -> None:
    door.sim.fail_next("", path, status)
    answer = door.sign_in(door.open_browser())
    assert (answer.status_code, "GitLab cannot be asked who you are" in answer.text) == (503, True)


def test_a_secret_that_gitlab_does_not_know_is_told_in_the_log(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    del door.provider.applications[door.registered.client_id]
    door.provider.applications[door.registered.client_id] = type(door.registered)(
        door.registered.client_id, "changed", door.registered.redirect_uri
    )
    assert door.sign_in(door.open_browser()).status_code == 503
    assert "GITLAB_OIDC_CLIENT_SECRET have to be those of its OAuth application" in caplog.text
    assert door.registered.client_secret not in caplog.text


def test_a_refused_person_is_told_nothing_of_the_group(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stranger = door.sim.add_user("eve")
    answer = door.sign_in(door.open_browser(stranger))
    assert GROUP not in answer.text
    assert f"eve (user {stranger.id}) is no member of acme/ops" in caplog.text


def test_pages_below_a_path_keep_their_cookies_there(sim: GitLabSim, tmp_path: Path) -> None:
    door = Door(sim, tmp_path, "https://tools.example/sandpiper")
    answer = door.client.get("/sign-in")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert cookie.startswith("__Secure-sandpiper-sign-in-")
    assert "path=/sandpiper/" in cookie.lower()
    there = parse_qs(urlsplit(answer.headers["location"]).query)
    assert there["redirect_uri"] == ["https://tools.example/sandpiper/sign-in/callback"]
    assert there["code_challenge_method"] == ["S256"]
