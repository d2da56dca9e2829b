import pytest

from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.sessions import layout

KEY = SessionKey(7, 42, "0123456789abcdef0123")


@pytest.mark.parametrize("turn", [0, 1, 9, 10, 9999])
@pytest.mark.parametrize("leaf", [layout.CONTEXT, layout.FILES, layout.CHECKPOINT, layout.CLAIM])
def test_a_name_says_what_it_was_made_of(turn: int, leaf: str) -> None:
    assert layout.parse_name(layout.make_turn_prefix(KEY, turn) + leaf) == layout.ObjectName(
        KEY, turn, leaf
    )


def test_names_sort_as_their_turns_do() -> None:
    names = [layout.make_turn_prefix(KEY, turn) for turn in range(0, 10_000, 37)]
    assert names == sorted(names)


def test_the_layout_is_the_one_of_the_design() -> None:
    assert (
        layout.make_turn_prefix(KEY, 3) + layout.FILES
        == "sessions/7/42/0123456789abcdef0123/0003/sandbox.tar.gz"
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


def test_an_index_entry_leads_back_to_its_key() -> None:
    assert layout.decode_pointer(KEY.session_id, layout.encode_pointer(KEY)) == KEY
