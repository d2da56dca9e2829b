import json

from worker.core.triggers import Replied
from worker.queue.journal import Entry, State, decode_entry, encode_entry

TRIGGER = Replied(7, 42, "d1", 4711)


def test_a_record_is_read_as_it_was_written_and_keeps_its_keys() -> None:
    entry = Entry(TRIGGER, State.WAITING, "w1", 1, 2, 3, 4.0, 5.0, "no slot", "KeyError")
    content = encode_entry(entry)
    assert decode_entry(content) == entry
    assert sorted(json.loads(content)) == [
        *("accepted_at", "broke", "deaths", "due", "owner", "queued", "reason", "schema"),
        *("state", "tries", "trigger"),
    ]
