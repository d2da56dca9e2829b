"""A pipeline that GitLab could not even make: its CI configuration is wrong."""

from worker.core.finding import Verdict
from worker.core.hostile import one_line
from worker.core.rules.base import Scene
from worker.core.survey import Ruled

MOST = 400
"""Characters of GitLab's words that are repeated."""


def broken(errors: str, scene: Scene) -> Ruled | None:
    """What `yaml_errors` of a pipeline without jobs says; nothing if there are none.

    Where the change does not touch the configuration, the fault is in something it includes, or on
    the target branch: that needs a look.
    """
    said = one_line(errors, MOST)
    if not said:
        return None
    ours = scene.changed is not None and scene.configured
    return Ruled(
        rule="configuration",
        verdict=(Verdict.CHANGE if ours else Verdict.UNKNOWN).value,
        cause=f"GitLab could not make the pipeline's jobs, for its configuration is wrong: {said}",
        to_do="Correct the CI configuration; the pipeline editor checks it before you push.",
        certain=ours,
    )
