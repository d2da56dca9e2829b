"""Operators sign in by GitLab: the real receiver over HTTP, behind a proxy that ends TLS."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.flow.product import Product, product
from tests.simulators.gitlab.oauth import SESSION
from tests.web_client import Browser, Line
from worker.lab import story

pytestmark = pytest.mark.attack("sign-in")
URL, TOKEN = "https://sandpiper.example", "the-operators-token-0123"
GROUP = "northsound/platform"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, story.make_script(), "memory://") as made:
        made.env["SANDPIPER_OPERATOR_TOKEN"] = TOKEN
        yield made
        assert made.gitlab.unexpected_requests == []


def set_up(told: Product) -> None:
    made = told.gitlab.provider.add_application(f"{URL}/sign-in/callback")
    told.env["GITLAB_OIDC_CLIENT_SECRET"] = made.client_secret
    chosen = f"sign_in: {{group: {GROUP}, client_id: {made.client_id}}}"
    told.write_settings(f"pages: {{url: {URL}, {chosen}}}\n")


def open_browser(told: Product, name: str, *, is_member: bool) -> Browser:
    user = told.gitlab.add_user(name)
    told.gitlab.provider.groups.setdefault(GROUP, set())
    if is_member:
        told.gitlab.provider.groups[GROUP].add(user.id)
    browser = Browser({URL: Line(told.url), told.gitlab.url: Line(told.gitlab.url)})
    browser.cookies[told.gitlab.url][SESSION] = told.gitlab.provider.sign_in(user)
    return browser


def test_a_member_signs_in_and_out_and_a_stranger_gets_nowhere(told: Product) -> None:
    set_up(told)
    with told.serve() as serve:
        member = open_browser(told, "mara", is_member=True)
        assert member.get(f"{URL}/sessions").status_code == 401
        assert member.get(f"{URL}/sign-in?to=sessions%2Freport").status_code == 200
        assert member.visited[-1] == f"{URL}/sessions/report"
        listed = member.get(f"{URL}/sessions")
        assert f'Signed in as mara. <a href="{URL}/sign-out">Sign out</a>' in listed.text

        stranger = open_browser(told, "eve", is_member=False)
        assert stranger.get(f"{URL}/sign-in").status_code == 403
        assert stranger.get(f"{URL}/sessions").status_code == 401
        link = member.step(f"{URL}/sign-in").headers["location"]
        assert stranger.get(member.step(link).headers["location"]).status_code == 400

        assert member.step(f"{URL}/sign-out", "POST").status_code == 303
        assert member.get(f"{URL}/sessions").status_code == 401
        assert httpx.get(f"{told.url}/sessions", auth=("me", TOKEN)).status_code == 200
        log = serve.log.read_text()
    assert "signed in: mara" in log
    assert "is no member of northsound/platform" in log
    assert told.env["GITLAB_OIDC_CLIENT_SECRET"] not in log


def test_without_its_secret_serve_does_not_start(told: Product) -> None:
    set_up(told)
    del told.env["GITLAB_OIDC_CLIENT_SECRET"]
    done = told.run("serve", "--port", "0")
    assert done.returncode == 2
    assert "set GITLAB_OIDC_CLIENT_SECRET" in done.stderr


def test_without_a_setting_there_is_no_sign_in(told: Product) -> None:
    told.write_settings(f"pages: {{url: {URL}}}\n")
    with told.serve():
        for path in ("/sign-in", "/sign-in/callback?code=1", "/sign-out"):
            assert httpx.get(f"{told.url}{path}").status_code == 404
        assert httpx.get(f"{told.url}/sessions").headers["www-authenticate"].startswith("Basic")
        home = httpx.get(f"{told.url}/")
        assert "Sandpiper explains failed GitLab pipelines" in home.text
        assert "sign in with GitLab" not in home.text
        told_json = httpx.get(f"{told.url}/", headers={"accept": "application/json"}).json()
        assert told_json["name"] == "Sandpiper"
