"""A fold: a stretch of the conversation that is sent in another form from one request on."""

from dataclasses import dataclass
from enum import StrEnum

from worker.settings.runs import Resume, Strategy


class FoldKind(StrEnum):
    """How the messages of a fold are sent.

    PRUNE shortens long tool results to `Fold.limit` characters of their head and of their tail, and
    names the file that holds the whole. WINDOW leaves the messages out.
    SUMMARY and RECURSIVE send a summary in their place; the latter was made in parts. CUT shortens
    every single message that is longer than `Fold.limit`.
    """

    PRUNE = "prune"
    WINDOW = "window"
    SUMMARY = "summary"
    RECURSIVE = "recursive"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Fold:
    """`messages[start:upto]` of a session in another form. The messages themselves stay stored.

    It was made when the session had `made_at` messages, and applies to all requests since.
    `text` replaces the messages that are left out. `limit` is how many characters a PRUNE leaves of
    each end of a result, and how many bytes a CUT leaves of a message. `kept_messages` are the
    indices of messages in the stretch that are still sent.
    `drops_wire` says that verbatim answers from before the fold are no longer sent, because their
    model binds them to the exact messages before them.
    """

    kind: FoldKind
    start: int
    upto: int
    made_at: int
    text: str = ""
    limit: int = 0
    kept_messages: tuple[int, ...] = ()
    drops_wire: bool = False

    @property
    def leaves_out(self) -> bool:
        """Whether the messages are not sent at all."""
        return self.kind in {FoldKind.WINDOW, FoldKind.SUMMARY, FoldKind.RECURSIVE}


@dataclass(frozen=True, slots=True)
class FoldSettings:
    """When and how far a conversation is folded.

    `fold_at` and `fold_to` are shares of the window: above `fold_at` the conversation is folded
    until it is below `fold_to` or `passes` folds were made. The first `keep_first` and the last
    `keep_last` messages stay as they are; a call among them is never left without its results.
    Without a strategy, the size of the window decides. Where nothing else helps, each message is
    cut to `cut_share` of the window, but to no fewer than `cut_least` characters unless that is
    still too long.
    """

    strategy: Strategy | None = None
    fold_at: float = 0.75
    fold_to: float = 0.20
    keep_first: int = 1
    keep_last: int = 12
    passes: int = 3
    resume: Resume = Resume.PRUNE
    cut_share: float = 0.25
    cut_least: int = 10_000
