"""The parts of a job, some of them replaced."""

from dataclasses import fields, replace
from typing import Any

from worker.turns.parts import Deps


def change_parts(deps: Deps, **changes: Any) -> Deps:
    """`deps` with other parts, each by its name in its group. Raises TypeError for others."""
    for group in ("gitlab", "runtime", "storage", "queue", "options"):
        made = getattr(deps, group)
        names = {each.name for each in fields(made)} & set(changes)
        made = replace(made, **{name: changes.pop(name) for name in names})
        deps = replace(deps, **{group: made})
    if changes:
        raise TypeError(f"no part of a job is called {', '.join(sorted(changes))}")
    return deps
