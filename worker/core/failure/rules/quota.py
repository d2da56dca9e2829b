"""No compute minutes left, or a registry's rate limit reached."""

from worker.core.failure.rules.base import Rule, compile_patterns
from worker.core.finding import Verdict

PREPARING = frozenset(
    {"runner_system_failure", "image_pull_failure", "script_failure", "unknown_failure", ""}
)
"""The failure reasons that GitLab gives if the runner could not prepare a job; older runners report
script_failure for an image."""

_LIMITED = compile_patterns(
    r"toomanyrequests\b",
    r"you have reached your (?:unauthenticated )?pull rate limit",
    r"pull\w* .{1,200}: 429 too many requests",
)
_CAUSE = (
    "The container registry refused to give out an image: its limit of pulls in a time is reached."
)
_TO_DO = (
    "Retry later. If it happens often, let the runners sign in to the registry or use the "
    "dependency proxy."
)

RULES = (
    Rule(
        name="ci-minutes",
        verdict=Verdict.INFRASTRUCTURE,
        cause="The namespace has no compute minutes left, so GitLab ran no job.",
        to_do="Buy compute minutes, wait for the next month, or use your own runner.",
        reasons=frozenset({"ci_quota_exceeded"}),
    ),
    Rule(
        name="registry-rate-limit",
        verdict=Verdict.INFRASTRUCTURE,
        cause=_CAUSE,
        to_do=_TO_DO,
        reasons=PREPARING,
        lines=_LIMITED,
    ),
    Rule(
        name="registry-rate-limit-in-script",
        verdict=Verdict.INFRASTRUCTURE,
        cause=_CAUSE,
        to_do=_TO_DO,
        reasons=frozenset({"script_failure"}),
        lines=_LIMITED,
        script=True,
    ),
)
