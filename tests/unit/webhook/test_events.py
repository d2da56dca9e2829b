import json
from typing import Any

import pytest

from tests.unit.webhook.cases import headers, payload
from worker.errors import Rejected
from worker.webhook import events

PIPELINE = {"x-gitlab-event": "Pipeline Hook"}
NOTE = {"x-gitlab-event": "Note Hook"}
DELETED = object()


def changed(name: str, path: str, value: object) -> bytes:
    """A payload with one field replaced, or removed."""
    body: Any = json.loads(payload(name))
    *folders, leaf = path.split(".")
    place = body
    for folder in folders:
        place = place[folder]
    if value is DELETED:
        del place[leaf]
    else:
        place[leaf] = value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("object_kind", "note"),
        ("object_kind", DELETED),
        ("object_attributes", DELETED),
        ("object_attributes", []),
        ("object_attributes.id", "881204"),
        ("object_attributes.id", 0),
        ("object_attributes.id", -5),
        ("object_attributes.id", 2**63),
        ("object_attributes.id", 10**400),
        ("object_attributes.id", 1.5),
        ("object_attributes.id", True),
        ("object_attributes.id", None),
        ("object_attributes.status", 7),
        ("object_attributes.status", "f" * 256),
        ("object_attributes.sha", "../../../etc/passwd"),
        ("object_attributes.sha", "abc\n"),
        ("object_attributes.sha", "a" * 65),
        ("object_attributes.ref", ""),
        ("object_attributes.ref", "two words"),
        ("object_attributes.ref", "nul\x00"),
        ("object_attributes.ref", "x" * 1025),
        ("object_attributes.tag", "false"),
        ("project", DELETED),
        ("project", None),
        ("project.id", "233"),
        ("project.path_with_namespace", 1),
        ("project.path_with_namespace", ""),
        ("merge_request", []),
        ("merge_request.iid", None),
        ("merge_request.target_project_id", {"id": 1}),
    ],
)
def test_a_hostile_pipeline_is_refused_naming_the_field(path: str, value: object) -> None:
    with pytest.raises(Rejected) as caught:
        events.parse_event(PIPELINE, changed("pipeline__merge_request_failed", path, value))
    assert caught.value.status == 400
    assert f" {path}: " in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("object_attributes.id", "1"),
        ("object_attributes.note", 5),
        ("object_attributes.discussion_id", "../9"),
        ("object_attributes.discussion_id", "a/b"),
        ("object_attributes.discussion_id", 4),
        ("object_attributes.system", "no"),
        ("object_attributes.type", 3),
        ("merge_request.iid", "418"),
        ("merge_request.target", "platform/certs"),
    ],
)
def test_a_hostile_note_is_refused_naming_the_field(path: str, value: object) -> None:
    with pytest.raises(Rejected) as caught:
        events.parse_event(NOTE, changed("note__reply_in_thread", path, value))
    assert caught.value.status == 400
    assert f" {path}: " in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"pipeline"',
        b"\xff\xfe{}",
        b'{"object_kind": "\xff"}',
        b'{"object_kind": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"object_kind=pipeline",
        b"1e999999",
        b"9" * 10_000,
        b"{} {}",
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["Pipeline Hook", "Note Hook", "Push Hook"])
def test_what_is_not_a_json_object_is_refused(kind: str, body: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        events.parse_event({"x-gitlab-event": kind}, body)
    assert caught.value.status == 400
    assert "\n" not in str(caught.value)


def test_a_post_without_an_event_header_is_refused() -> None:
    with pytest.raises(Rejected, match="X-Gitlab-Event") as caught:
        events.parse_event({}, payload("pipeline__branch_failed"))
    assert caught.value.status == 400


@pytest.mark.parametrize("name", ["pipeline__merge_request_failed", "note__reply_in_thread"])
def test_fields_of_newer_gitlabs_do_no_harm(name: str) -> None:
    newer = changed(name, "project.a_new_field", {"deep": [1, 2, {"x": None}]})
    assert events.parse_event(headers(name), newer) == events.parse_event(
        headers(name), payload(name)
    )


def test_the_refusal_does_not_repeat_what_was_sent() -> None:
    body = changed("pipeline__merge_request_failed", "object_attributes.id", "s3cret-value")
    with pytest.raises(Rejected) as caught:
        events.parse_event(PIPELINE, body)
    assert "s3cret-value" not in str(caught.value)
