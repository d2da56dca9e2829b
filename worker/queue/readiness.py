"""Shows in a file whether this worker takes messages from its broker, for a readiness probe."""

import logging
from pathlib import Path
from typing import Any

from celery.bootsteps import StartStopStep

log = logging.getLogger("sandpiper.queue")

INTERVAL = 5.0
"""Seconds between two renewals of the file, by the loop that also reads from the broker."""


class ReadyFile:
    """A file that exists, and is renewed, while messages are taken. Without a path it does nothing.

    No method raises: a worker that cannot write the file works all the same.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def renew(self) -> None:
        """Create the file, or set its time to now."""
        if self._path is None:
            return
        try:
            self._path.touch()
        except OSError as error:
            log.warning("the ready file cannot be written: %s", error)

    def remove(self) -> None:
        """Delete the file, also one that an earlier process has left."""
        if self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the ready file cannot be removed: %s", error)


class ReadinessStep(StartStopStep):  # type: ignore[misc]
    """Celery starts it whenever its consumer is connected, and stops it when the broker is lost."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._was_started = False
        self._renewals: Any = None

    def start(self, parent: Any) -> None:
        message = "the broker is back: messages are taken again"
        log.info(message if self._was_started else "messages are taken from the broker")
        self._was_started = True
        ready: ReadyFile = parent.app.ready_file
        ready.renew()
        self._renewals = parent.timer.call_repeatedly(INTERVAL, ready.renew)

    def stop(self, parent: Any) -> None:
        if self._renewals is not None:
            self._renewals.cancel()
            self._renewals = None
        parent.app.ready_file.remove()

    terminate = shutdown = stop
