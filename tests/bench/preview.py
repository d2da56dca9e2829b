"""Does the failure preview hold the lines that explain the failure?

Real failed logs with marked lines are not part of the repository: `LOGS=folder make bench` names
the folder that holds them with their scorer, `score.py`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from worker.core import logs

BASELINES = ("tail4k", "grep-last4k", "clean+hybrid-grep+tail")
SPEED_MB = 64
"""Megabytes of the log that the pass is timed on."""


def main() -> None:
    """Print the scorer's tables of the preview and of its baselines, and what a pass costs."""
    _speed()
    folder = os.environ.get("LOGS", "")
    if not folder or not (Path(folder) / "score.py").is_file():
        print("preview: no marked logs here (LOGS=folder with score.py); its quality is not scored")
        return
    score = [sys.executable, str(Path(folder) / "score.py")]
    print("preview: baselines, at 4,096 bytes")
    for name in BASELINES:
        _run(score, "--builtin", name, "--quiet")
    print("preview: ours")
    _run(score, "--py", f"{__file__}:shown", "--by", "ecosystem,source,size")
    print("preview: inside GitLab's envelope with timestamps")
    _run(score, "--py", f"{__file__}:shown", "--envelope", "gitlab-ts", "--quiet")
    print("preview: with the last green log, where there is one")
    _run(score, "--py", f"{__file__}:shown_beside_green", "--pass-meta", "--only", "cidiff")


def shown(path: str) -> str:
    """The preview of a log, as the scorer asks for it."""
    return logs.preview_of([Path(path).read_bytes()])


def shown_beside_green(path: str, meta: dict[str, str | None]) -> str:
    """The same with the log of the last run that passed, if the case has one."""
    green = meta["pass_log"]
    passed = [Path(green).read_bytes()] if green else None
    return logs.preview_of([Path(path).read_bytes()], green=passed)


def _run(score: list[str], *options: str) -> None:
    root = str(Path(__file__).parents[2])
    sys.stdout.flush()
    subprocess.run([*score, *options], check=True, env={**os.environ, "PYTHONPATH": root})


def _speed() -> None:
    piece = "".join(_line(number) for number in range(14_000)).encode()
    count = SPEED_MB * 1_000_000 // len(piece)
    started = time.process_time()
    logs.preview_of(piece for _ in range(count))
    ours = time.process_time() - started
    started = time.process_time()
    for _ in range(count):
        piece.decode("utf-8", "replace").split("\n")
    floor = time.process_time() - started
    size = count * len(piece) / 1e6
    print("preview: MB/s of cleaning and one pass / of decoding and splitting alone / ratio")
    print(f"  {size / ours:.0f} / {size / floor:.0f} / {ours / floor:.1f}")


def _line(number: int) -> str:
    match number % 40:
        case 7:
            return f"WARNING: part_{number % 97} of group {number * 7919 % 1009} took {number}\n"
        case 23:
            return f"\x1b[31mERROR\x1b[0m worker-{number % 13}: request {number:x} refused\n"
        case _:
            name = f"{number * 2654435761 % 2**32:x}"
            return f"[{number:6}/14000] Compiling src/module_{number % 701}/{name}.c -O2\n"
