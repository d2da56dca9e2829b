"""Whether a function takes linear time, measured as a ratio, on a machine of any speed."""

import time
from collections.abc import Callable


def takes_linear_time(
    work: Callable[[str], object], part: str, size: int, begin: str = "", end: str = ""
) -> bool:
    """Whether four times the text takes about four times as long, not sixteen times.

    `part` is repeated between `begin` and `end`, up to twice `size` characters. A busy machine
    makes one measurement wrong, hardly three.
    """
    return any(_is_linear(work, part, size, begin, end) for _ in range(3))


def _is_linear(work: Callable[[str], object], part: str, size: int, begin: str, end: str) -> bool:
    spent = []
    for length in (size // 2, 2 * size):
        text = begin + part * (length // len(part)) + end
        started = time.process_time()
        work(text)
        spent.append(time.process_time() - started)
    return spent[1] < 8 * spent[0] + 0.2
