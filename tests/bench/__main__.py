"""`make bench`: every figure is a ratio to a floor measured in the same run."""

import sys
from collections.abc import Callable

from tests.bench import loop_overhead, preview, prompt_cache, sandbox, start_up

BENCHES: dict[str, Callable[[], None]] = {
    "cache": prompt_cache.main,
    "loop": loop_overhead.main,
    "preview": preview.main,
    "start": start_up.main,
    "sandbox": sandbox.main,
}


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all."""
    for name in names or BENCHES:
        if name not in BENCHES:
            sys.exit(f"no benchmark {name!r}; there are: {', '.join(BENCHES)}")
        BENCHES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
