import pytest

from worker.conversation.context import make_session_id
from worker.conversation.triggers import (
    PipelineFailed,
    Replied,
    from_message,
    to_message,
    trigger_id,
)
from worker.safety.markdown import Kind, Marker, find_marker


def test_a_redelivered_webhook_finds_its_own_session() -> None:
    first = make_session_id("https://gitlab.example/", 7, 42, 900, "analyze-failures")
    assert first == make_session_id("https://gitlab.example", 7, 42, 900, "analyze-failures")
    assert len(first) == 20


def test_every_part_sets_a_session_apart() -> None:
    base = ("https://gitlab.example", 7, 42, 900, "analyze-failures", "")
    others = [
        ("https://other.example", *base[1:]),
        (base[0], 8, *base[2:]),
        (*base[:2], 43, *base[3:]),
        (*base[:3], 901, *base[4:]),
        (*base[:4], "other", ""),
        (*base[:5], "dry"),
    ]
    assert len({make_session_id(*parts) for parts in [base, *others]}) == 7


def test_a_marker_is_read_back_from_the_start_of_a_note_only() -> None:
    marker = Marker("0123456789abcdef0123", 3)
    assert find_marker(marker.text() + "\n\nhello") == marker
    for body in ("> " + marker.text(), "\n" + marker.text(), "", marker.text().upper()):
        assert find_marker(body) is None


@pytest.mark.parametrize("kind", Kind)
def test_a_marker_of_each_kind_is_read_back(kind: Kind) -> None:
    marker = Marker("0123456789abcdef0123", 2, kind)
    assert f" {kind}=2 -->" in marker.text()
    assert find_marker(marker.text()) == marker
    assert marker.turn == (2 if kind is Kind.TURN else None)


@pytest.mark.parametrize(
    ("written", "number", "kind"),
    [
        ("turn=0", 0, Kind.TURN),
        ("turn=17", 17, Kind.TURN),
        ("turn=999000", 999_000, Kind.TURN),
        ("turn=999001", 1, Kind.SUGGESTION),
        ("turn=999002", 2, Kind.SUGGESTION),
        ("turn=999003", 3, Kind.SUGGESTION),
        ("turn=999999", 0, Kind.COMMAND),
    ],
)
def test_markers_in_notes_of_older_versions_are_still_read(
    written: str, number: int, kind: Kind
) -> None:
    body = f"<!-- sandpiper:session=0123456789abcdef0123 {written} -->\n\nIt failed."
    assert find_marker(body) == Marker("0123456789abcdef0123", number, kind)


@pytest.mark.parametrize(
    "trigger",
    [
        PipelineFailed(7, 900, "a" * 40, "branch"),
        PipelineFailed(8, 900, "a" * 40, "branch", mr_iid=42, mr_project_id=7),
        Replied(7, 42, "d" * 40, 5),
    ],
)
def test_a_trigger_survives_the_queue(trigger: PipelineFailed | Replied) -> None:
    assert from_message(to_message(trigger)) == trigger


def test_a_triggers_id_is_the_same_for_every_delivery_and_no_other_event() -> None:
    one, other = Replied(7, 42, "d", 5), Replied(7, 42, "d", 6)
    assert trigger_id(one) == trigger_id(Replied(7, 42, "d", 5))
    assert trigger_id(one) != trigger_id(other)


@pytest.mark.parametrize(
    "message", [{}, {"kind": "x"}, {"kind": "reply"}, {"kind": "reply", "y": 1}]
)
def test_a_message_that_is_no_trigger_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a trigger"):
        from_message(message)
