"""Accounts, memberships, and the id tokens of jobs on the simulated GitLab."""

from collections.abc import Iterator

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.simulators.gitlab import Access, GitLabSim, Scene


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running


@pytest.fixture
def api(sim: GitLabSim, scene: Scene) -> Iterator[httpx.Client]:
    headers = {"PRIVATE-TOKEN": scene.read_token}
    with httpx.Client(base_url=f"{sim.url}/api/v4/", headers=headers, trust_env=False) as client:
        yield client


def test_projects_are_listed_by_membership(sim: GitLabSim, scene: Scene, api: httpx.Client) -> None:
    sim.add_project("public/thing", public=True)
    sim.add_project("secret/thing")
    mine = sim.add_project("team/other")
    sim.add_member(mine, scene.bot, Access.REPORTER)

    def paths(**query: str) -> list[str]:
        return [each["path_with_namespace"] for each in api.get("projects", params=query).json()]

    assert paths(membership="true", sort="asc", order_by="id") == ["team/service", "team/other"]
    assert paths() == ["team/other", "public/thing", "team/service"]
    assert sim.unexpected_requests == []
    assert api.get("projects?membership=yes").status_code == 400
    assert api.get("projects?colour=red").status_code == 400
    assert len(sim.unexpected_requests) == 2


def test_merge_requests_are_filtered_and_ordered_by_when_they_were_touched(
    sim: GitLabSim, scene: Scene, api: httpx.Client
) -> None:
    later = sim.open_merge_request(scene.project, scene.developer, title="L", branch="l")
    sim.push(scene.mr, {"a": b"1"})
    where = f"projects/{scene.project.id}/merge_requests"

    def iids(**query: str) -> list[int]:
        return [each["iid"] for each in api.get(where, params=query).json()]

    assert iids(order_by="updated_at") == [1, later.iid]
    assert iids(order_by="updated_at", sort="asc") == [later.iid, 1]
    assert iids(updated_after=scene.mr.updated_at) == [1]
    assert sim.unexpected_requests == []
    assert api.get(where, params={"updated_after": "yesterday"}).status_code == 400
    assert len(sim.unexpected_requests) == 1


def test_a_jobs_id_token_is_checked_by_the_published_keys(sim: GitLabSim, scene: Scene) -> None:
    published = httpx.get(f"{sim.url}/oauth/discovery/keys", trust_env=False).json()
    assert "d" not in published["keys"][0]
    token = jwt.decode(
        sim.make_id_token(scene.pipeline, user_login=None, extra="x"),
        KeySet.import_key_set(published),
    )
    assert token.claims["pipeline_id"] == str(scene.pipeline.id)
    assert token.claims["extra"] == "x"
    assert "user_login" not in token.claims
    assert (token.claims["iss"], token.claims["aud"]) == (sim.url, "sandpiper")
