"""`python -m tests.bench ops [TABLE ...]`: operational failures, from the webhook to the note.

Without a TABLE that of tests/unit/verdict is played. Prints each item that is not right and
the figures. Exits with 1 if something certain is wrong, or a note says what it must not.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.ops_table import GRADES, MISSED, NEVER, SAID, WRONG, grade, play, read_items

OWN = Path(__file__).parents[1] / "unit" / "verdict" / "ops_cases.yaml"


def main(words: Sequence[str] = ()) -> None:
    """Play every item of the tables."""
    grades: Counter[str] = Counter()
    for path in map(Path, words or [str(OWN)]):
        for item in read_items(path):
            played = play(item)
            found, why = grade(item, played)
            grades[found] += 1
            rule = next((each.rule_match.rule for each in played.groups if each.rule_match), "-")
            by = "rule" if played.ruled else "asked"
            print(f"{found:<6} {item.id}: {played.settled} ({by}, {rule}) {why}")
    print(", ".join(f"{name} {grades[name]}" for name in GRADES))
    if any(grades[each] for each in (WRONG, SAID, NEVER, MISSED)):
        sys.exit(1)
