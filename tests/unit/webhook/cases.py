"""The deliveries of `payloads/{event}__{case}.json`, and what the door makes of each."""

from dataclasses import replace
from pathlib import Path

from worker.conversation.triggers import PipelineFailed, PipelinePassed, Reacted, Replied, Trigger

PAYLOADS = Path(__file__).parent / "payloads"
PROJECTS = ("platform/*",)
"""The allow-list that the table assumes."""

HEADER = {
    "pipeline": "Pipeline Hook",
    "note": "Note Hook",
    "confidential_note": "Confidential Note Hook",
    "push": "Push Hook",
    "job": "Job Hook",
    "system": "System Hook",
    "merge_request": "Merge Request Hook",
    "emoji": "Emoji Hook",
}

SHA = "5d9b3c1f0a7e4b62c8d1f3a59e07b4c2d6f8e913"
BRANCH = "fix/renewal-window"
ENDED = 1_795_166_321
"""2026-11-20 09:18:41 UTC, as most of the payloads say."""

FAILED = PipelineFailed(233, 881204, SHA, BRANCH, mr_iid=418, mr_project_id=233, finished_at=ENDED)
FORK_FAILED = PipelineFailed(
    977, 881204, SHA, BRANCH, mr_iid=418, mr_project_id=233, finished_at=ENDED
)
PASSED = PipelinePassed(233, 881204, SHA, BRANCH, mr_iid=418, mr_project_id=233, finished_at=ENDED)
BRANCH_FAILED = PipelineFailed(233, 881204, SHA, BRANCH, finished_at=ENDED)
REPLIED = Replied(233, 418, "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c", 907733)
UNLISTED = "the project other/certs is not in the configured list (gitlab.projects)"
NOT_MERGE_REQUEST = "the comment is not on a merge request"
NOT_WATCHED = (
    "the pipeline ran on the default branch: it is no merge request's, and not one that "
    "incidents.branches watches"
)
NOT_READ = "only pipeline, comment and emoji events are read"
REACTED = Reacted(233, 418, 907700, 9)
NOT_READ_OF_SYSTEM = "of system hooks, only pipeline and comment events are read, not {}"

CASES: dict[str, Trigger | str] = {
    "pipeline__merge_request_failed": FAILED,
    "pipeline__merged_results_failed": PipelineFailed(
        233, 881204, "aa11bb22cc33dd44ee55ff6600778899aabbccdd", BRANCH, 418, 233, finished_at=ENDED
    ),
    "pipeline__merge_train_failed": PipelineFailed(
        233, 881204, "bb22cc33dd44ee55ff6600778899aabbccddeeff", BRANCH, 418, 233, finished_at=ENDED
    ),
    "pipeline__retried_and_failed_again": replace(FAILED, finished_at=ENDED + 2551),
    # Whether these matter takes a look at GitLab: the worker decides.
    "pipeline__only_allowed_failures": FAILED,
    "pipeline__started_by_a_bot": FAILED,
    "pipeline__stale_sha_failed": PipelineFailed(
        233, 881204, "0c4e8a6b2d1f3957c0be8d4f6a2b1c3d5e7f9081", BRANCH, 418, 233, finished_at=ENDED
    ),
    "pipeline__only_a_child_failed": FAILED,
    "pipeline__external_pull_request_failed": BRANCH_FAILED,
    "pipeline__merge_request_locked": FAILED,
    "pipeline__hidden_name": FAILED,
    "pipeline__started_by_hand_failed": BRANCH_FAILED,
    "pipeline__started_by_api_failed": BRANCH_FAILED,
    "pipeline__scheduled_on_branch_failed": (
        "the pipeline was started by schedule, not by a change"
    ),
    "pipeline__on_demand_scan_failed": (
        "the pipeline was started by ondemand_dast_scan, not by a change"
    ),
    "pipeline__security_policy_failed": (
        "the pipeline was started by security_orchestration_policy, not by a change"
    ),
    "pipeline__child_of_branch_failed": "a child pipeline is reported with its parent",
    "pipeline__fork_run_in_target_project": FAILED,
    "pipeline__fork_failed": FORK_FAILED,
    "pipeline__fork_of_unlisted_project": UNLISTED,
    "pipeline__fork_without_urls": FORK_FAILED,
    "pipeline__branch_failed": BRANCH_FAILED,
    "pipeline__without_merge_request_key": BRANCH_FAILED,
    "pipeline__default_branch_failed": NOT_WATCHED,
    "pipeline__merge_request_from_default_branch": PipelineFailed(
        233, 881204, SHA, "main", 418, 233, finished_at=ENDED
    ),
    "pipeline__empty_repository_default_branch": BRANCH_FAILED,
    "pipeline__tag_failed": "the pipeline ran for a tag, not for a merge request",
    "pipeline__child_failed": "a child pipeline is reported with its parent",
    "pipeline__multi_project_downstream_failed": PipelineFailed(
        233, 881204, SHA, "release-2", finished_at=ENDED
    ),
    "pipeline__merge_request_merged": "the merge request is merged",
    "pipeline__merge_request_closed": "the merge request is closed",
    "pipeline__no_jobs": FAILED,
    "pipeline__running": "the pipeline is running, not failed",
    "pipeline__success": PASSED,
    "pipeline__canceled": "the pipeline is canceled, not failed",
    **{
        f"pipeline__{status}": f"the pipeline is {status}, not failed"
        for status in (
            *("created", "waiting_for_resource", "preparing", "pending"),
            *("canceling", "skipped", "manual", "scheduled"),
        )
    },
    "pipeline__passed_with_warnings": PASSED,
    "pipeline__branch_passed": PipelinePassed(233, 881204, SHA, BRANCH, finished_at=ENDED),
    "pipeline__fork_passed": PipelinePassed(977, 881204, SHA, BRANCH, 418, 233, finished_at=ENDED),
    "pipeline__default_branch_passed": NOT_WATCHED,
    "pipeline__child_passed": "a child pipeline is reported with its parent",
    "pipeline__merge_request_merged_passed": "the merge request is merged",
    "pipeline__unlisted_project": UNLISTED,
    "pipeline__subgroup_with_other_case": FAILED,
    "note__reply_in_thread": REPLIED,
    "note__reply_on_diff": REPLIED,
    "note__before_actions_existed": REPLIED,
    "note__fork": REPLIED,
    "note__hook_of_another_project": REPLIED,
    "note__plain_comment": "the comment is neither in a thread nor addressed to Sandpiper",
    "note__command": REPLIED,
    "note__command_below_text": REPLIED,
    "note__command_in_thread": REPLIED,
    "note__mention": REPLIED,
    # Only GitLab can say whose accounts are bots': the worker asks.
    "note__command_by_a_bot": REPLIED,
    "note__command_edited_in": "the comment was edited, not written",
    "note__command_by_gitlab": "the comment was written by GitLab itself",
    "note__command_unlisted_project": UNLISTED,
    "note__on_snippet": NOT_MERGE_REQUEST,
    "confidential_note__command": REPLIED,
    "note__our_own": "the comment is one of our own notes",
    "note__quotes_our_marker": REPLIED,
    "note__edited": "the comment was edited, not written",
    "note__system": "the comment was written by GitLab itself",
    "note__on_issue": NOT_MERGE_REQUEST,
    "note__on_commit": NOT_MERGE_REQUEST,
    "note__without_discussion": "the comment names no thread",
    "note__unlisted_project": UNLISTED,
    "confidential_note__reply_in_thread": REPLIED,
    "push__branch": NOT_READ,
    "job__failed": NOT_READ,
    "merge_request__pushed": NOT_READ,
    "emoji__award": REACTED,
    "emoji__revoke": Reacted(233, 418, 907700, 9, revoked=True),
    "emoji__skin_tone": Reacted(233, 418, 907700, 10),
    # Whose note it is tells GitLab, when the worker asks.
    "emoji__without_note": REACTED,
    "emoji__own_eyes": "only 👍 and 👎 are counted",
    "emoji__on_another_note": "the reaction is not to one of our notes",
    "emoji__on_issue": "the reaction is not to a comment on a merge request",
    "emoji__unlisted_project": UNLISTED,
    "system__pipeline": FAILED,
    "system__pipeline_passed": PASSED,
    "system__note": REPLIED,
    "system__project_created": NOT_READ_OF_SYSTEM.format("project_create"),
    "system__push": NOT_READ_OF_SYSTEM.format("push"),
    "system__merge_request": NOT_READ_OF_SYSTEM.format("merge_request"),
}


def payload(name: str) -> bytes:
    """The body of a delivery."""
    return (PAYLOADS / f"{name}.json").read_bytes()


def headers(name: str) -> dict[str, str]:
    """The headers that tell a delivery's event."""
    return {"x-gitlab-event": HEADER[name.partition("__")[0]]}
