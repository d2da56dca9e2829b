"""`make bench`: every figure is a ratio to a floor measured in the same run."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

from tests.bench import (
    attacks,
    chaos,
    flood,
    folds,
    ledger,
    loop_overhead,
    many,
    ops,
    pods,
    preview,
    prompt_cache,
    queueing,
    receiver,
    report,
    sandbox,
    start_up,
    tiers,
    verdicts,
)

BENCHES: dict[str, Callable[[], None]] = {
    "cache": prompt_cache.main,
    "flood": flood.main,
    "folds": folds.main,
    "ledger": ledger.main,
    "loop": loop_overhead.main,
    "preview": preview.main,
    "start": start_up.main,
    "sandbox": sandbox.main,
    "pods": pods.main,
    "receiver": receiver.main,
    "queue": queueing.main,
    "many": many.main,
    "chaos": chaos.main,
    "attacks": attacks.main,
    "report": report.main,
    "tiers": tiers.main,
    "verdicts": verdicts.main,
    "ops": ops.main,
}


WITH_WORDS: dict[str, Callable[[Sequence[str]], None]] = {
    "chaos": chaos.main,
    "attacks": attacks.main,
    "flood": flood.main,
    "ops": ops.main,
}
"""Those that, named first, have the words after them."""


def main(words: list[str]) -> None:
    """Run the named benchmarks, or all."""
    if words and words[0] in WITH_WORDS:
        WITH_WORDS[words[0]](words[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        usage="%(prog)s [-h] [NAME ...] | chaos [OPTION ...] | attacks [AREA ...] | flood [N]"
        " | ops [TABLE]",
        epilog="chaos --help and attacks --help tell what may follow; make bench has the services.",
    )
    help = f"what to measure, all by default: {', '.join(BENCHES)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=help)
    names = parser.parse_args(words).names
    for name in names:
        if name not in BENCHES:
            parser.error(f"no benchmark {name!r}; there are: {', '.join(BENCHES)}")
    if len(names) == 1:
        BENCHES[names[0]]()
        return
    # Each in a process of its own: the most memory of a process is that of all it has run.
    runs = {name: subprocess.run(_make_command(name), check=False) for name in names or BENCHES}
    if failed := [name for name, done in runs.items() if done.returncode]:
        sys.exit(f"failed: {', '.join(failed)}")


def _make_command(name: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench", name]


if __name__ == "__main__":
    main(sys.argv[1:])
