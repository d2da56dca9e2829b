import json

import pytest

from worker.conversation.triggers import (
    BranchEnded,
    PipelineFailed,
    PipelinePassed,
    Reacted,
    Replied,
    Trigger,
    to_message,
)
from worker.queue.journal import (
    Entry,
    State,
    decode_entry,
    encode_entry,
    get_project_id,
    name_entry,
)

TRIGGER = Replied(7, 42, "d1", 4711)


def test_a_record_is_read_as_it_was_written_and_keeps_its_keys() -> None:
    entry = Entry(TRIGGER, State.WAITING, "w1", 1, 0.5, 2, 3, 4.0, 5.0, "no slot", "KeyError")
    content = encode_entry(entry)
    assert decode_entry(content) == entry
    assert sorted(json.loads(content)) == [
        *(
            "accepted_at",
            "blame",
            "broke",
            "deaths",
            "doubted_at",
            "doubts",
            "due",
            "owner",
            "queued",
        ),
        *("reason", "schema", "state", "tries", "trigger"),
    ]


def test_a_record_of_another_version_is_read() -> None:
    fields = {"trigger": to_message(TRIGGER), "state": "open", "schema": 1}
    assert decode_entry(json.dumps(fields).encode()) == Entry(TRIGGER, State.OPEN)
    later = fields | {"accepted_at": 4, "queued": 2, "mood": "fair"}
    read = Entry(TRIGGER, State.OPEN, requeues=2, accepted_at=4.0)
    assert decode_entry(json.dumps(later).encode()) == read


def test_each_death_in_a_record_without_blame_counts_in_full() -> None:
    fields = {"trigger": to_message(TRIGGER), "state": "open", "schema": 1, "deaths": 3}
    assert decode_entry(json.dumps(fields).encode()).has_to_give_up()


ENDED = BranchEnded(7, 901, "a" * 40, "main", 60)
EARLIER: tuple[Trigger, ...] = (
    PipelineFailed(7, 901, "a" * 40, "main"),
    PipelinePassed(7, 901, "a" * 40, "main", 3, 8),
    TRIGGER,
    Reacted(7, 42, 1, 2),
)


def test_a_branchs_entry_is_read_as_it_was_written_and_lies_beside_the_projects_others() -> None:
    entry = Entry(ENDED, State.OPEN, accepted_at=5.0)
    assert decode_entry(encode_entry(entry)) == entry
    assert get_project_id(ENDED) == 7
    assert name_entry(ENDED).startswith("journal/7/0/branch901-")


@pytest.mark.parametrize("trigger", EARLIER)
def test_what_an_earlier_version_knows_it_reads_and_a_branchs_entry_it_leaves_alone(
    trigger: Trigger,
) -> None:
    assert json.loads(encode_entry(Entry(trigger, State.OPEN)))["schema"] == 1
    assert json.loads(encode_entry(Entry(ENDED, State.OPEN)))["schema"] == 2


@pytest.mark.parametrize(
    "change", [{"kind": "trunk"}, {"ref": 5}, {"project_id": "7"}, {"sha": None}]
)
def test_a_damaged_branchs_entry_is_none(change: dict[str, object]) -> None:
    fields = json.loads(encode_entry(Entry(ENDED, State.OPEN)))
    fields["trigger"] |= change
    with pytest.raises(ValueError, match="not a trigger"):
        decode_entry(json.dumps(fields).encode())
