"""The events that start a run; ids only, so that queue messages are small and never stale."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

UNRELATED_SOURCES = frozenset(
    {
        "chat",
        "container_registry_push",
        "ondemand_dast_scan",
        "ondemand_dast_validation",
        "schedule",
        "security_orchestration_policy",
    }
)
"""Sources of pipelines that are not started by a change of their branch.

See https://docs.gitlab.com/ci/jobs/job_rules/#ci_pipeline_source-predefined-variable.
"""

_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
_LONGEST = 4096
"""Characters of a text; a branch's name has at most 1,024 bytes."""


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """A pipeline failed. `mr_iid` is 0 where the event named no merge request.

    `project_id` is where the pipeline ran; `mr_project_id` is the merge request's target project.
    Whether the pipeline is the merge request's is asked of GitLab. `ref` and `sha` are what the
    event said, by which people find it in a log: nothing is decided by them. `by_job` says that one
    of the pipeline's own jobs asks, so the pipeline may still be running. A pipeline whose jobs are
    run again fails again under its id: `finished_at` (epoch seconds, 0 if the event did not say)
    tells the events of the two failures apart, and nothing else is decided by it either.
    """

    project_id: int
    pipeline_id: int
    sha: str
    ref: str
    mr_iid: int = 0
    mr_project_id: int = 0
    by_job: bool = False
    finished_at: int = 0
    kind: Literal["pipeline"] = "pipeline"


@dataclass(frozen=True, slots=True)
class PipelinePassed:
    """A pipeline passed; the fields are those of `PipelineFailed`."""

    project_id: int
    pipeline_id: int
    sha: str
    ref: str
    mr_iid: int = 0
    mr_project_id: int = 0
    finished_at: int = 0
    kind: Literal["passed"] = "passed"


@dataclass(frozen=True, slots=True)
class BranchEnded:
    """A pipeline of a branch, not of a merge request, has ended; the worker asks GitLab whether the
    branch is watched, and what holds for it now.

    `ref` and `finished_at` are as in `PipelineFailed`. Without a `finished_at`, the pipeline may
    still be running: then one of its own jobs asks.
    """

    project_id: int
    pipeline_id: int
    sha: str
    ref: str
    finished_at: int = 0
    kind: Literal["branch"] = "branch"


@dataclass(frozen=True, slots=True)
class Replied:
    """Somebody wrote on a merge request; the worker decides whether it is for the bot."""

    project_id: int
    mr_iid: int
    discussion_id: str
    note_id: int
    kind: Literal["reply"] = "reply"


@dataclass(frozen=True, slots=True)
class Reacted:
    """Somebody gave a note 👍 or 👎, or took it back; the worker then reads the current votes.

    `award_id` and `revoked` only distinguish the events on one note.
    """

    project_id: int
    mr_iid: int
    note_id: int
    award_id: int
    revoked: bool = False
    kind: Literal["reaction"] = "reaction"


Trigger = PipelineFailed | PipelinePassed | BranchEnded | Replied | Reacted


def trigger_id(trigger: Trigger) -> str:
    """An id that is the same for every delivery of the same event."""
    text = json.dumps(to_message(trigger), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def to_message(trigger: Trigger) -> dict[str, Any]:
    """The trigger as the queue carries it."""
    # `asdict` would copy every value, which takes most of the time of accepting a trigger.
    message = {name: getattr(trigger, name) for name in trigger.__slots__}
    if not message.get("finished_at", 1):
        del message["finished_at"]  # as earlier versions wrote it: entries are found by its hash
    return message


def from_message(message: Mapping[str, Any]) -> Trigger:
    """The trigger of a queue message. Raises ValueError if it is not one of ours."""
    kinds: dict[str, type[Trigger]] = {
        "pipeline": PipelineFailed,
        "passed": PipelinePassed,
        "branch": BranchEnded,
        "reply": Replied,
        "reaction": Reacted,
    }
    try:
        trigger = kinds[message["kind"]](**message)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a trigger: {error}") from error
    for each in fields(trigger):
        value, is_good = getattr(trigger, each.name), True
        if each.type is int:
            is_good = type(value) is int and 0 <= value < 1 << 63
        elif each.type is str:
            is_text = isinstance(value, str) and len(value) <= _LONGEST
            is_good = is_text and not _NO_TEXT.search(value)
        elif each.type is bool:
            is_good = isinstance(value, bool)
        if not is_good:
            raise ValueError(f"not a trigger: its {each.name} is not as it should be")
    return trigger
