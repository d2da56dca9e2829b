"""Asks the broker whether it can be used, and which workers answer through it."""

import logging
import re
from collections.abc import Callable

import amqp
import redis
from celery import Celery
from kombu.exceptions import KombuError, OperationalError

from worker.errors import QueueError

log = logging.getLogger("sandpiper.queue")

_REFUSALS = (
    amqp.AccessRefused,
    amqp.NotAllowed,
    redis.AuthenticationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
)
"""What brokers answer to a wrong user, password or virtual host; `__cause__` of kombu's errors."""


def find_broker_failure(app: Celery) -> QueueError | None:
    """Return why the broker cannot be used, with its URL but no user; None if it can be.

    The error is transient unless the broker refuses the login.
    """
    with app.connection_for_write() as connection:
        foreign = (*connection.connection_errors, *connection.channel_errors)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
        except (KombuError, OSError, *foreign) as error:
            return _explain_failure(connection.as_uri(), error)
    return None


def _explain_failure(uri: str, error: Exception) -> QueueError:
    refused = isinstance(error, _REFUSALS) or isinstance(error.__cause__, _REFUSALS)
    place = re.sub("//[^/]*@", "//", uri)
    reason = str(getattr(error, "message", "") or error).rstrip(".")
    problem = "refuses this login" if refused else "does not answer"
    return QueueError(f"the broker {place} {problem}: {reason}", transient=not refused)


def require_login(app: Celery) -> None:
    """Raise QueueError if the broker refuses the login; one that does not answer may yet come."""
    failure = find_broker_failure(app)
    if failure is not None and not failure.transient:
        advice = "set SANDPIPER_BROKER to a user, password and virtual host that it knows"
        raise QueueError(f"{failure}; {advice}")


def make_readiness_check(app: Celery) -> Callable[[], str | None]:
    """Return a function that returns why the broker cannot be used, for strangers, or None."""

    def check() -> str | None:
        failure = find_broker_failure(app)
        if failure is None:
            return None
        log.warning("%s", failure)
        return "the broker does not answer"

    return check


def list_workers(app: Celery) -> list[str]:
    """Return the names of the workers that answer through the broker within three seconds.

    Raises QueueError.
    """
    try:
        return sorted(app.control.inspect(timeout=3.0).ping() or {})
    except (OperationalError, OSError) as error:
        raise QueueError(f"the broker does not answer: {error}", transient=True) from error
