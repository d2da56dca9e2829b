import pytest

from tests.unit.webhook.cases import CASES, PAYLOADS, headers, payload
from worker.webhook import events
from worker.webhook.routing import Ignored, is_allowed, route_event


def test_every_payload_file_has_its_case() -> None:
    assert {path.stem for path in PAYLOADS.glob("*.json")} == set(CASES)


@pytest.mark.parametrize("name", ["pipeline__unlisted_project", "note__unlisted_project"])
def test_an_empty_list_allows_every_project(name: str) -> None:
    decision = route_event(events.parse_event(headers(name), payload(name)), "", (), ())
    assert isinstance(decision, tuple)


@pytest.mark.parametrize(
    ("path", "globs", "expected"),
    [
        ("group/app", ["group/*"], True),
        ("group/sub/app", ["group/*"], True),
        ("GROUP/App", ["group/app"], True),
        ("group/app", ["other/*", "group/ap?"], True),
        ("group-evil/app", ["group/*"], False),
        ("evil/group/app", ["group/*"], False),
        ("group", ["group/*"], False),
        ("group/app", [], True),
    ],
)
def test_the_allow_list_matches_whole_paths(path: str, globs: list[str], expected: bool) -> None:
    assert is_allowed(path, globs) is expected


def fork_pipeline(web_url: str, url: str) -> events.PipelineEvent:
    return events.PipelineEvent(
        object_kind="pipeline",
        object_attributes=events.PipelineAttributes(id=1, ref="b", sha="ab", status="failed"),
        project=events.Project(id=4, path_with_namespace="me/app", web_url=web_url),
        merge_request=events.PipelineMergeRequest(iid=1, target_project_id=5, url=url),
    )


@pytest.mark.parametrize(
    ("web_url", "url"),
    [
        ("https://git.example.com/me/app", "https://evil.example.com/other/app/-/merge_requests/1"),
        (
            "https://git.example.com/elsewhere",
            "https://git.example.com/other/app/-/merge_requests/1",
        ),
        ("https://git.example.com/me/app", "https://git.example.com/other/app"),
    ],
)
def test_a_target_path_that_cannot_be_told_is_left_to_the_worker(web_url: str, url: str) -> None:
    event = fork_pipeline(web_url, url)
    assert isinstance(route_event(event, "Pipeline Hook", ["nothing/*"], ()), tuple)


def test_the_target_path_is_found_where_gitlab_lives_under_a_path() -> None:
    root = "https://h.example.com/git"
    event = fork_pipeline(f"{root}/me/app", f"{root}/other/app/-/merge_requests/1")
    assert isinstance(route_event(event, "Pipeline Hook", ["other/*"], ()), tuple)
    assert isinstance(route_event(event, "Pipeline Hook", ["me/*", "git/*"], ()), Ignored)
