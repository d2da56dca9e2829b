"""`WORLDS=FILE python -m tests.bench verdicts`: labelled worlds, and what the record settles there.

Without WORLDS the ones of tests/unit/sources are judged. Exits with 1 if a verdict is wrong.
"""

import os
import sys
from collections import Counter
from pathlib import Path

from tests.labelled_worlds import NEVER, OPEN, RIGHT, WRONG, read_worlds, settled_verdict

OWN = Path(__file__).parents[1] / "unit" / "sources" / "worlds.yaml"


def main() -> None:
    """Judge every world; print those that are not right, and the figures."""
    grades: Counter[str] = Counter()
    provable: Counter[str] = Counter()
    for world in read_worlds(Path(os.environ.get("WORLDS", OWN))):
        settled = settled_verdict(world)
        grade = world.grade(settled)
        grades[grade] += 1
        wanted = world.fields["expect"]["settled"]
        if wanted != "none":
            provable[grade] += 1
        if grade != RIGHT:
            print(f"{grade:<6} {world.id}: settled {settled}, label {wanted} ({world.title})")
    print(
        f"worlds {sum(grades.values())}: right {grades[RIGHT]}, open {grades[OPEN]}, "
        f"wrong {grades[WRONG]}, plainly wrong {grades[NEVER]}"
    )
    print(f"of {sum(provable.values())} provable ones {provable[RIGHT]} settled")
    if grades[WRONG] or grades[NEVER]:
        sys.exit(1)
