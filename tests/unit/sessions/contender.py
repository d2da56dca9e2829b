"""A process that contends for a folder store. Usage: contender.py MODE ROOT NAME.

It says "ready", waits for a line, works, and says what it won; "checkpoint" works until killed.
"""

import sys
from pathlib import Path

from worker.core.ports import Claim, SessionKey
from worker.errors import TurnTaken
from worker.sessions.folder import FolderStore

KEY = SessionKey(7, 42, "0123456789abcdef0123")
TURNS = 40
SIZE = 200_000


def claim(store: FolderStore, name: str) -> list[int]:
    mine = Claim(name, "t", 100.0)
    return [turn for turn in range(TURNS) if store.claim(KEY, turn, mine, 50.0) is None]


def commit(store: FolderStore, name: str) -> list[int]:
    won = []
    for turn in range(TURNS):
        try:
            store.commit(KEY, turn, name.encode() * 1000)
        except TurnTaken:
            continue
        won.append(turn)
    return won


def checkpoint(store: FolderStore, name: str) -> list[int]:
    number = 0
    while True:
        store.checkpoint(KEY, 0, bytes([number % 256]) * SIZE)
        store.claim(KEY, 0, Claim(name, "t", float(number)), 0.0)
        number += 1


MODES = {"claim": claim, "commit": commit, "checkpoint": checkpoint}

if __name__ == "__main__":
    mode, root, name = sys.argv[1:]
    store = FolderStore(Path(root))
    print("ready", flush=True)
    sys.stdin.readline()
    print(*MODES[mode](store, name), flush=True)
