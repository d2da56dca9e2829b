"""`make bench`: every figure is a ratio to a floor measured in the same run."""

import sys
from collections.abc import Callable
from itertools import takewhile

from tests.bench import (
    attacks,
    chaos,
    loop_overhead,
    many,
    preview,
    prompt_cache,
    queueing,
    receiver,
    sandbox,
    start_up,
    verdicts,
)

BENCHES: dict[str, Callable[[], None]] = {
    "cache": prompt_cache.main,
    "loop": loop_overhead.main,
    "preview": preview.main,
    "start": start_up.main,
    "sandbox": sandbox.main,
    "receiver": receiver.main,
    "queue": queueing.main,
    "many": many.main,
    "chaos": chaos.main,
    "attacks": attacks.main,
    "verdicts": verdicts.main,
}


def main(words: list[str]) -> None:
    """Run the named benchmarks, or all; `chaos` may have options, `attacks` areas."""
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    if names == ["chaos"]:
        chaos.main(words[1:])
        return
    if names[:1] == ["attacks"]:
        attacks.main(words[1:])
        return
    for name in names or BENCHES:
        if name not in BENCHES:
            sys.exit(f"no benchmark {name!r}; there are: {', '.join(BENCHES)}")
        BENCHES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
