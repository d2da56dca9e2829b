"""`note:` and `known:`: how a finding is posted, and when an earlier finding is reused."""

from pydantic import Field

from worker.settings.base import Part


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
