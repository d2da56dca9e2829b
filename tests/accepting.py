"""The door's queue in tests that are about one trigger at a time."""

from collections.abc import Callable, Sequence

from worker.conversation.triggers import Trigger
from worker.errors import QueueError
from worker.webhook.http import Enqueue


def one_by_one(enqueue: Callable[[Trigger], object]) -> Enqueue:
    """Make a batch of what takes a single trigger and may raise QueueError."""

    def enqueue_each(triggers: Sequence[Trigger]) -> list[QueueError | None]:
        failures: list[QueueError | None] = []
        for trigger in triggers:
            try:
                enqueue(trigger)
                failures.append(None)
            except QueueError as error:
                failures.append(error)
        return failures

    return enqueue_each


def queue_nothing(triggers: Sequence[Trigger]) -> list[QueueError | None]:
    """Accept all and keep none."""
    return [None] * len(triggers)
