"""A helper: a model that the host asks for small things itself, such as a summary."""

from dataclasses import dataclass
from typing import Protocol

from worker.core.conversation.messages import Usage


@dataclass(frozen=True, slots=True)
class HelperAnswer:
    """What a helper said, by which `model`, and what it cost (None: unknown price).

    The request was sent at `sent_at` (epoch seconds) and took `seconds`.
    """

    text: str
    usage: Usage
    cost_usd: float | None
    model: str
    sent_at: float = 0.0
    seconds: float = 0.0


class Helper(Protocol):
    """A model that is asked once, without tools and history."""

    @property
    def context_tokens(self) -> int:
        """The most input tokens of one request."""
        ...

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        """The answer, of at most `max_tokens`, to the instructions `task` about `text`.

        Raises nothing: None if the helper fails, is late or is not asked at the moment. Callers
        then go on by rules.
        """
        ...
