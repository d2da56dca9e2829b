"""The parts of a job, some of them replaced."""

from dataclasses import fields, replace
from typing import Any

from worker.turns.parts import Deps

_WHOLE = {
    "reader": ("pipelines", "merge_requests", "permissions"),
    "writer": ("bot", "notes", "reactions"),
}


def change_parts(deps: Deps, **changes: Any) -> Deps:
    """`deps` with other parts, each by its name in its group. Raises TypeError for others.

    `reader` and `writer` stand for all parts of GitLab that read, and that write.
    """
    for name, groups in _WHOLE.items():
        if name in changes:
            changes |= dict.fromkeys(groups, changes.pop(name))
    for group in ("gitlab", "runtime", "storage", "queue", "options"):
        made = getattr(deps, group)
        names = {each.name for each in fields(made)} & set(changes)
        made = replace(made, **{name: changes.pop(name) for name in names})
        deps = replace(deps, **{group: made})
    if changes:
        raise TypeError(f"no part of a job is called {', '.join(sorted(changes))}")
    return deps
