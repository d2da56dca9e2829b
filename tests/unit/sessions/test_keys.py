from dataclasses import replace

import pytest

from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.sessions import layout

KEY = SessionKey(7, 42, "0123456789abcdef0123")
OF_BRANCH = SessionKey(7, 0, KEY.session_id, "branch-main")


@pytest.mark.parametrize("key", [KEY, OF_BRANCH, replace(OF_BRANCH, branch="branch-a-0-1.f.json")])
@pytest.mark.parametrize("turn", [0, 1, 9, 10, 9999])
@pytest.mark.parametrize("leaf", [layout.CONTEXT, layout.FILES, layout.CHECKPOINT, layout.CLAIM])
def test_a_name_says_what_it_was_made_of(key: SessionKey, turn: int, leaf: str) -> None:
    assert layout.parse_name(layout.make_turn_prefix(key, turn) + leaf) == layout.ObjectName(
        key, turn, leaf
    )


def test_names_sort_as_their_turns_do() -> None:
    names = [layout.make_turn_prefix(KEY, turn) for turn in range(0, 10_000, 37)]
    assert names == sorted(names)


def test_the_layout_is_the_one_of_the_design() -> None:
    assert (
        layout.make_turn_prefix(KEY, 3) + layout.FILES
        == "sessions/7/42/0123456789abcdef0123/0003/sandbox.tar.gz"
    )
    assert (
        layout.make_turn_prefix(OF_BRANCH, 0) + layout.CONTEXT
        == "sessions/7/branch-main/0123456789abcdef0123/0000/context.json"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "index/0123456789abcdef0123",
        "sessions/7/42/0123456789abcdef0123/0000/",
        "sessions/7/42/0123456789abcdef0123/0000/a/b",
        "sessions/7/42/0123456789abcdef0123/1/context.json",
        "sessions/07/42/0123456789abcdef0123/0000/context.json",
        "sessions/7/-1/0123456789abcdef0123/0000/context.json",
        "sessions/7/42/../0000/context.json",
        "sessions/7/42/0123456789ABCDEF0123/0000/context.json",
        "sessions/7/42/0123456789abcdef0123/0000/context.json\n",
        "sessions/٧/42/0123456789abcdef0123/0000/context.json",
        "/sessions/7/42/0123456789abcdef0123/0000/context.json",
        "sessions/7/main/0123456789abcdef0123/0000/context.json",
        "sessions/7/branch-/0123456789abcdef0123/0000/context.json",
        "sessions/7/branch-a/b/0123456789abcdef0123/0000/context.json",
        f"sessions/7/branch-{'a' * 61}/0123456789abcdef0123/0000/context.json",
        "sessions/" + "9" * 5000 + "/42/0123456789abcdef0123/0000/context.json",
    ],
    ids=lambda name: name[:60],
)
def test_a_name_that_is_not_ours_is_nothing(name: str) -> None:
    assert layout.parse_name(name) is None


def test_a_key_that_is_refused_does_not_flood_the_message() -> None:
    with pytest.raises(StoreError) as caught:
        layout.make_session_prefix(SessionKey(1, 1, "../" * 10_000))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("key", [KEY, OF_BRANCH])
def test_an_index_entry_leads_back_to_its_key(key: SessionKey) -> None:
    assert layout.decode_pointer(key.session_id, layout.encode_pointer(key)) == key


@pytest.mark.parametrize(
    "key",
    [
        replace(KEY, mr_iid=0),
        replace(OF_BRANCH, mr_iid=42),
        replace(OF_BRANCH, branch="main"),
        replace(OF_BRANCH, branch="branch-../../8"),
        replace(OF_BRANCH, branch="branch-a\n"),
    ],
)
def test_a_key_is_a_merge_requests_or_a_branchs(key: SessionKey) -> None:
    with pytest.raises(StoreError, match="not a session's key"):
        layout.make_session_prefix(key)


def test_a_row_says_whose_it_is() -> None:
    rest = f"-{KEY.session_id}-0002.json"
    row = layout.parse_row(f"recent/090950/7855000000000-7-42{rest}")
    assert row == layout.RowName(f"7855000000000-7-42{rest[:-5]}", 2_144_999_999.999, 7, 42)
    row = layout.parse_row(f"recent/090950/7855000000000-7-branch-a-1-0002{rest}")
    assert row
    assert (row.project_id, row.mr_iid, row.branch) == (7, 0, "branch-a-1-0002")
    assert layout.parse_row(f"recent/090950/7855000000000-7-main{rest}") is None
