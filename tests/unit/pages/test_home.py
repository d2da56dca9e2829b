"""The first page: what it says to whom, and what it says to nobody."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.unit.pages.pages import ATTRIBUTES, TAGS, Seen
from worker.pages.render import DOCUMENTATION, make_home_route

URL = "https://sandpiper.example/tools"
SIGN_IN, LIST = f"{URL}/sign-in", f"{URL}/sessions?password"


@pytest.mark.parametrize(
    ("url", "can_sign_in", "has_token", "links"),
    [
        ("", False, False, []),
        ("", True, True, []),
        (URL, False, False, []),
        (URL, True, False, [SIGN_IN]),
        (f"{URL}/", False, True, [LIST]),
        (URL, True, True, [SIGN_IN, LIST]),
    ],
)
def test_it_says_what_this_is_and_where_operators_go(
    url: str, can_sign_in: bool, has_token: bool, links: list[str]
) -> None:
    route = make_home_route(url, can_sign_in=can_sign_in, has_token=has_token)
    answer = TestClient(Starlette(routes=[route])).get("/", headers={"accept": "text/html"})
    seen = Seen(answer.text)
    assert [link for link in seen.links if not link.startswith("#")] == [*links, DOCUMENTATION]
    assert "This is its receiver, and it is running." in seen.text
    assert ("Each note links to the page of its session." in seen.text) == bool(url)
    assert seen.tags <= TAGS
    assert seen.attributes <= ATTRIBUTES
    assert "script-src" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("application/json", True),
        ("application/json, */*;q=0.1", True),
        ("text/html,application/xhtml+xml", False),
        ("text/html, application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_whoever_asks_for_json_alone_gets_it(accept: str, is_json: bool) -> None:
    route = make_home_route(URL, can_sign_in=True, has_token=True)
    answer = TestClient(Starlette(routes=[route])).get("/", headers={"accept": accept})
    assert answer.headers["content-type"].startswith("application/json") == is_json
    if is_json:
        told = {"name": "Sandpiper", "status": "ok", "documentation": DOCUMENTATION}
        assert answer.json() == told
