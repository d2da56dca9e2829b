"""`WORLDS=FILE python -m tests.bench verdicts`: labelled worlds, and the headline that is posted.

Each goes from the webhook to the note, with a model that cannot tell, so that the headline is what
the product settles, and with one that is plainly wrong; of a world that says what the model claims,
also with that. Without WORLDS those of tests/unit/sources are judged. NOTES=FOLDER keeps the notes.
Exits with 1 if a verdict is wrong.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.labelled_notes import claimed, misled, unhelpful, wrong_label
from tests.labelled_worlds import NEVER, OPEN, RIGHT, WRONG, World, read_worlds

OWN = Path(__file__).parents[1] / "unit" / "gitlab" / "read"


def main() -> None:
    """Judge every world; print those that are not right, and the figures."""
    grades: Counter[str] = Counter()
    provable: Counter[str] = Counter()
    followed = 0
    worlds = _read_all()
    for world in worlds:
        settled, headline = _headlines(world)
        grade = world.grade(settled)
        if settled not in ("none", headline):
            grade = WRONG
            print(f"{world.id}: {settled} by itself, {headline} with a model that is wrong")
        followed += settled == "none" and headline == wrong_label(world)
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
    print(
        f"where it is open, a model that is wrong is followed in {followed} and held up otherwise"
    )
    claims_wrong = _judge_claims([world for world in worlds if world.claim])
    if grades[WRONG] or grades[NEVER] or claims_wrong:
        sys.exit(1)


def _read_all() -> list[World]:
    if named := os.environ.get("WORLDS"):
        return read_worlds(Path(named))
    return [world for name in ("worlds", "claims") for world in read_worlds(OWN / f"{name}.yaml")]


def _judge_claims(worlds: Sequence[World]) -> int:
    """Print what became of the models' claims; return how many headlines are wrong."""
    ends: Counter[str] = Counter()
    for world in worlds:
        headline, wanted = claimed(world).headline, world.fields["expect"]["headline"]
        ends["right" if headline == wanted else "wrong"] += 1
        ends["refuted"] += wanted != world.claim
        if headline != wanted:
            print(f"wrong  {world.id}: claim {world.claim}, headline {headline}, not {wanted}")
    if worlds:
        print(
            f"claims {len(worlds)}: right {ends['right']}, wrong {ends['wrong']}; "
            f"{ends['refuted']} of them are ruled out"
        )
    return ends["wrong"]


def _headlines(world: World) -> tuple[str, str]:
    """With a model that cannot tell, and with one that is wrong."""
    alone, with_wrong = unhelpful(world), misled(world)
    if folder := os.environ.get("NOTES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{world.id}.md").write_text(f"{alone.body}\n\n=====\n\n{with_wrong.body}")
    return alone.headline, with_wrong.headline
