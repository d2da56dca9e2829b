"""The list of turns when it is longer than what is read at once."""

from pathlib import Path

import pytest

from worker.conversation.context import SessionKey
from worker.sessions.folder import FolderStore
from worker.sessions.recent import MAX_NAMES

KEY = SessionKey(7, 42, "0123456789abcdef0123")
NOW = 1_800_000_000.0


@pytest.mark.slow
def test_turns_behind_the_first_ten_thousand_can_be_reached(tmp_path: Path) -> None:
    recent = FolderStore(tmp_path).recent_turns
    recent.put_row(KEY, 0, NOW, b"newest")
    ((newest, _),) = recent.list_newest(5)
    (folder,) = (tmp_path / "recent").iterdir()
    time, _, place = newest.partition("-")
    for number in range(1, MAX_NAMES + 1):  # names alone: nothing in between is read
        (folder / f"{int(time) + number:013d}-{place}.json").touch()
    recent.put_row(KEY, 1, NOW - MAX_NAMES - 9, b"oldest")
    cursor = f"{int(time) + MAX_NAMES:013d}-{place}"
    assert [row for _, row in recent.list_newest(5, cursor)] == [b"oldest"]
    assert [row for _, row in recent.list_newest(1)] == [b"newest"]
