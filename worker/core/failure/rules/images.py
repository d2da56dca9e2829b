"""An image that the runner could not get."""

from worker.core.failure.rules.base import Rule, Scene, compile_patterns
from worker.core.failure.rules.quota import PREPARING
from worker.core.finding import Verdict


def _own(scene: Scene, line: str) -> bool:
    """For `Rule.doubtful`: whether this merge request may be to blame for the missing image. It may
    have changed the image's name, or its pipeline or project should have built the image."""
    text = line.lower()
    ours = scene.project.lower() in text or (scene.sha and scene.sha[:8] in text)
    return scene.may_change_configuration or bool(ours)


RULES = (
    Rule(
        name="image-pull",
        verdict=Verdict.INFRASTRUCTURE,
        cause=(
            "The runner could not get the job's image: the registry does not have it or does not "
            "let the runner have it."
        ),
        to_do=(
            "Check the image's name and tag in the CI configuration and the runner's access to "
            "the registry, then retry."
        ),
        reasons=PREPARING,
        lines=compile_patterns(
            r"^(?:ERROR|WARNING): (?:Job failed(?: \(system failure\))?: )?.{0,200}"
            r"(?:failed to pull image|image pull failed).{0,500}(?:manifest unknown|not found"
            r"|pull access denied|repository does not exist|unauthorized|denied)",
            r"image pull failed: Back-off pulling image",
            r"\bErrImagePull\b|\bImagePullBackOff\b|\bInvalidImageName\b",
        ),
        doubtful=_own,
    ),
)
