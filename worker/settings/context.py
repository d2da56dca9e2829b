"""`context:`: how a conversation is kept inside the model's window."""

from pydantic import Field, model_validator

from worker.conversation.folds import Resume, Strategy
from worker.settings.base import Clash, Part


class ContextSettings(Part):
    """`context:`. A workflow may set other values of the same fields.

    They are those of `conversation.folds.fold.FoldSettings`.
    """

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
