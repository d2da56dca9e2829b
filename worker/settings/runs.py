"""How turns are run and posted: `loop:`, `context:`, `note:`, `known:`, `incidents:`, `tests:`, and
more."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from worker.settings.base import Clash, Part, say_form

MOST_CALLS = 1000
"""The most tool calls that one answer can be allowed."""


class PlanBy(StrEnum):
    """Who plans an investigation."""

    OFF = "off"
    FACTS = "facts"
    MODEL = "model"


class Gate(StrEnum):
    """Who judges whether an answer ends a turn."""

    OFF = "off"
    RULES = "rules"
    JUDGE = "judge"


class ToolList(StrEnum):
    """Which tools a model is told of."""

    FULL = "full"
    COMPACT = "compact"


def _read_off(value: object) -> object:
    """Return "off" for False, which is how YAML reads an unquoted `off`."""
    return "off" if value is False else value


PlanChoice = Annotated[
    PlanBy, BeforeValidator(_read_off, json_schema_input_type=PlanBy | Literal[False])
]


GateChoice = Annotated[
    Gate, BeforeValidator(_read_off, json_schema_input_type=Gate | Literal[False])
]


class LoopSettings(Part):
    """`loop:`. A workflow may set another `plan` and `gate`."""

    plan: PlanChoice = Field(
        default=PlanBy.FACTS,
        description="What is prepared before the model is asked: `off`; `facts`: the "
        "representative logs, the diff and the list of jobs are saved in the sandbox while the "
        "model thinks, it is shown what explains the failure, and steps are proposed by rules; "
        "`model`: `models.helper` proposes the steps.",
    )
    gate: GateChoice = Field(
        default=Gate.RULES,
        description="What a text has to be before it ends a turn: `off`: anything; `rules`: no "
        "promise, no tool call written as text, no raw data, with the sections of a finding, and "
        "not without a look; `judge`: `models.helper` is asked as well. What does not pass is "
        "asked for once more.",
    )
    tools: ToolList = Field(
        default=ToolList.FULL,
        description="Which tools the model is told of: `full`: all of the workflow's; `compact`: "
        "the workflow's `small_tools`, and `find_tool`, by which it finds the others.",
    )
    find_tool_uses: int = Field(
        default=3, ge=1, le=100, description="Times that `find_tool` may be used in one run."
    )
    empty_retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="Times in a row that a model is asked again after an answer without a text or "
        "a call; then the run ends.",
    )
    broken_answers: int = Field(
        default=3,
        ge=1,
        le=20,
        description="Answers in a row that are cut at their length limit or cannot be read, after "
        "which the run ends.",
    )
    calls_per_answer: int = Field(
        default=64,
        ge=1,
        le=MOST_CALLS,
        description="Tool calls of one answer; of an answer with more of them none is made, and it "
        "counts as broken.",
    )


class Strategy(StrEnum):
    """Which folds keep a turn inside the window.

    All but NONE prune first. PRUNE also puts a summary in place of messages, as SUMMARY does, but
    only if pruning saves too little. NONE folds only if a provider refused a request as too long.
    """

    NONE = "none"
    PRUNE = "prune"
    WINDOW = "window"
    SUMMARY = "summary"
    RECURSIVE = "recursive"


class Resume(StrEnum):
    """How to fold at the start of a reply whose messages the provider's cache does not hold."""

    NONE = "none"
    PRUNE = "prune"
    SUMMARY = "summary"


class ContextSettings(Part):
    """`context:`. A workflow may set other values of the same fields."""

    strategy: Strategy | None = Field(
        default=None,
        description="What is done with older messages within a turn: `none`, `prune` (long tool "
        "results become their head and tail), `window` (they are left out), `summary` or "
        "`recursive` (a summary takes their place, made in parts by the latter). Not set: `none`, "
        "but `summary` for a window below 64,000 tokens.",
    )
    fold_at: float = Field(
        default=0.75,
        gt=0,
        lt=1,
        description="Share of the window above which older messages are folded; the window is the "
        "smaller of `limits.context_tokens` and the model's.",
    )
    fold_to: float = Field(default=0.20, gt=0, lt=1, description="Share that is aimed at.")
    keep_first: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="First messages that stay as they are; only where a provider refuses a request "
        "and nothing else helps, the middle of a very long one is left out. 1 is what the run "
        "began with.",
    )
    keep_last: int = Field(
        default=12,
        ge=2,
        le=1000,
        description="Last messages that stay as they are; fewer where the window is still full.",
    )
    passes: int = Field(default=3, ge=1, le=10, description="Folds before one request, at most.")
    resume: Resume = Field(
        default=Resume.PRUNE,
        description="What is done with the turns before a reply whose prefix the provider's cache "
        "does not hold any more: `none`, `prune` or `summary`.",
    )

    cut_share: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="What is left of a single message if a provider refuses the request as too "
        "long and folding is not enough: this share of the window.",
    )
    cut_least: int = Field(
        default=10_000,
        ge=1000,
        description="Characters that are left of it at least, unless the request is refused with "
        "them too.",
    )

    @model_validator(mode="after")
    def _check_shares(self) -> "ContextSettings":
        if self.fold_to >= self.fold_at:
            raise Clash(
                f"expected fold_to ({self.fold_to:g}) below fold_at ({self.fold_at:g})",
                "fold_to",
                "fold_at",
            )
        return self


class NoteSettings(Part):
    """`note:`."""

    thread: bool = Field(
        default=False,
        description="A resolvable thread instead of a plain note; it blocks merging where all "
        "threads must be resolved.",
    )
    suggestions: bool = Field(
        default=True,
        description="A fix inside the diff is offered as a suggestion, which is always a "
        "resolvable thread. It is resolved when the pipeline passes.",
    )
    progress: float = Field(
        default=15.0,
        ge=0,
        description="The least seconds between two edits of a running note; 0: it shows no "
        "progress.",
    )


class KnownSettings(Part):
    """`known:`. Whether an earlier finding may replace a model's answer, and for how many days."""

    answer: bool = Field(
        default=True,
        description="A failure that was explained before is answered without a model, where "
        "nothing speaks against it.",
    )
    days: float = Field(
        default=14.0,
        gt=0,
        le=365,
        description="Days for which an explanation is taken up again (at most one for failures "
        "of the target branch).",
    )


DEFAULT_BRANCH = "default"
"""The entry of `incidents.branches` that stands for a project's default branch."""

_BranchGlob = Annotated[
    str,
    Field(
        pattern=r"^[^/\s~^:\\][^\s~^:\\]*$",
        max_length=255,
        json_schema_extra=say_form(
            "expected `default`, a branch's name, or a glob of names such as release/*"
        ),
    ),
]


class IncidentSettings(Part):
    """`incidents:`. Which branches are watched, and what is done when one is red."""

    branches: tuple[_BranchGlob, ...] = Field(
        default=(DEFAULT_BRANCH,),
        max_length=100,
        description="The branches that are watched: where one is red, it is looked into once, and "
        "merge requests that fail with the same errors are told so without a model. `default` is "
        "each project's default branch; others are named by globs such as `release/*`. `[]`: none, "
        "and every merge request is analysed for itself.",
    )
    issue: bool = Field(
        default=False,
        description="Whether a red branch gets an issue in its project, one for each incident: "
        "edited in place, and closed when the branch is green again.",
    )
    rerun: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="For how many merge requests at most the jobs that failed because of a red "
        "branch are run again, each once, when it is green without a change of the code. The write "
        "token's user has to be a Developer. 0: none.",
    )


class LedgerSettings(Part):
    """`tests:`. For how long it is kept how the tests of each project have run."""

    days: int = Field(
        default=60,
        ge=0,
        le=366,
        description="Days for which it is kept which tests have failed in which pipeline, and how "
        "often each job's ran, as the test reports that GitLab has parsed say. They are read at "
        "the end of a turn and by `sandpiper sweep`, which removes what is older. 0: nothing is "
        "kept.",
    )


class RetrySettings(Part):
    """`retry:`. Whether failed jobs of merge requests are run again, once for each commit."""

    flaky: int = Field(
        default=0,
        ge=0,
        le=1,
        description="1: a job that GitLab's record proves to be flaky is run again, unless the "
        "change touches what failed, or its name or stage says that it deploys, releases, changes "
        "data or guards security. The write token's user has to be a Developer. 0: none.",
    )
    infrastructure: int = Field(
        default=0,
        ge=0,
        le=1,
        description="1: the same for a job that its runner or GitLab itself has failed. 0: none.",
    )


class RetentionSettings(Part):
    """`retention:`."""

    days: float = Field(
        default=90.0,
        ge=0,
        le=36_500,
        description="Days after which `sandpiper sweep` removes a session; 0: never.",
    )


class WorkerSettings(Part):
    """`worker:`, in seconds."""

    grace: float = Field(
        default=60.0,
        gt=0,
        description="Seconds that runs have after SIGTERM to end between two steps and be handed "
        "over. What kills the process has to wait longer.",
    )
    heartbeat: float = Field(
        default=8.0, gt=0, description="Seconds between two signs of life of a worker."
    )
    lease: float = Field(
        default=30.0,
        gt=0,
        description="Seconds without a sign of life after which a worker is taken for dead, and "
        "its runs over. At least three heartbeats.",
    )

    @model_validator(mode="after")
    def _check_lease(self) -> "WorkerSettings":
        if self.lease < 3 * self.heartbeat:
            raise Clash(
                f"expected a lease ({self.lease:g}) of at least three heartbeats "
                f"(of {self.heartbeat:g})",
                "lease",
                "heartbeat",
            )
        return self
