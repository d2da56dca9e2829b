"""No room left on a runner's disk."""

from worker.core.failure.rules.base import Rule, compile_patterns
from worker.core.failure.rules.quota import PREPARING
from worker.core.finding import Verdict

_FULL = compile_patterns(
    r"(?:^|[:\s\])])no space left on device[.)'\"\]]{0,3}$",
    r"^(?:npm (?:ERR!|error) )(?:code ENOSPC|nospc\b)",
    r"\bENOSPC: no space left on device\b",
    r"disk quota exceeded[.)]?$",
)
_CAUSE = "The runner's disk was full, so the job could not write."
_TO_DO = "Retry the job, on another runner if you can. Tell whoever keeps the runners to free disk."


RULES = (
    Rule(
        name="disk-full",
        verdict=Verdict.INFRASTRUCTURE,
        cause=_CAUSE,
        to_do=_TO_DO,
        reasons=PREPARING,
        lines=compile_patterns(r"\bno space left on device\b", r"\bdisk quota exceeded\b"),
    ),
    Rule(
        name="disk-full-in-script",
        verdict=Verdict.INFRASTRUCTURE,
        cause=_CAUSE,
        to_do=_TO_DO,
        reasons=frozenset({"script_failure"}),
        lines=_FULL,
        script=True,
        # The script itself may have filled the disk.
        doubtful=lambda scene, line: True,
    ),
)
