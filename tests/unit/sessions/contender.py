"""A process that contends for a folder store. Usage: contender.py MODE ROOT NAME.

It says "ready", waits for a line, works, and says what it won; "checkpoint" works until killed.
"""

import sys
from pathlib import Path

from worker.conversation.context import SessionKey
from worker.errors import TurnTaken
from worker.sessions.folder import FolderStore
from worker.sessions.store import Claim

KEY = SessionKey(7, 42, "0123456789abcdef0123")
TURNS = 40
SIZE = 200_000
ROUNDS = 60
COUNT = "spend/7/2026-01-01"


def claim(store: FolderStore, name: str) -> list[int]:
    mine = Claim(name, "t", 100.0)
    return [turn for turn in range(TURNS) if store.claim_turn(KEY, turn, mine, 50.0) is None]


def commit(store: FolderStore, name: str) -> list[int]:
    won = []
    for turn in range(TURNS):
        try:
            store.commit_turn(KEY, turn, name.encode() * 1000)
        except TurnTaken:
            continue
        won.append(turn)
    return won


def checkpoint(store: FolderStore, name: str) -> list[int]:
    number = 0
    while True:
        # Letters: what begins like JSON and has no end would be taken for a damaged checkpoint.
        store.write_checkpoint(KEY, 0, b"%c" % (ord("A") + number % 26) * SIZE)
        store.claim_turn(KEY, 0, Claim(name, "t", float(number)), 0.0)
        number += 1


def empty(store: FolderStore, name: str) -> list[int]:
    """Make and delete objects in folders that others empty meanwhile; count under their lock."""
    records, done = store.records, []
    for number in range(ROUNDS):
        entry, key = f"journal/7/42/{name}", SessionKey(7, 42, name.encode().hex())
        assert records.create(entry, b"1")
        store.write_checkpoint(key, 0, b"x")
        assert store.read_checkpoint(key, 0) == b"x"
        store.remove_session(key)
        stored = records.read(entry, 9)
        assert stored is not None
        assert records.replace(entry, b"2", stored.version)
        count_one(store)
        records.delete(entry)
        done.append(number)
    return done


def count_one(store: FolderStore) -> None:
    while True:
        stored = store.records.read(COUNT, 9)
        assert stored is not None
        if store.records.replace(COUNT, b"%d" % (int(stored.content) + 1), stored.version):
            return


MODES = {"empty": empty, "claim": claim, "commit": commit, "checkpoint": checkpoint}

if __name__ == "__main__":
    mode, root, name = sys.argv[1:]
    store = FolderStore(Path(root))
    print("ready", flush=True)
    sys.stdin.readline()
    print(*MODES[mode](store, name), flush=True)
