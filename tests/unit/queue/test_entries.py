import json

from worker.conversation.triggers import Replied, to_message
from worker.queue.journal import Entry, State, decode_entry, encode_entry

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
