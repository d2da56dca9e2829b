"""What a command costs before it does anything, beside a bare interpreter."""

import os
import resource
import subprocess
import sys
from pathlib import Path

ROUNDS = 5


def main() -> None:
    """Print CPU seconds of `sandpiper --help` and of `python -c pass`."""
    command = [str(Path(sys.executable).with_name("sandpiper")), "--help"]
    ours = min(_cpu(command) for _ in range(ROUNDS))
    floor = min(_cpu([sys.executable, "-c", "pass"]) for _ in range(ROUNDS))
    print("start: CPU seconds of `sandpiper --help` / bare interpreter / ratio")
    print(f"  {ours:.3f} / {floor:.3f} / {ours / floor:.1f}")


def _cpu(command: list[str]) -> float:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
