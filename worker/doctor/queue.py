"""Checks the broker and its workers."""

from collections.abc import Iterator

from worker.doctor.base import Installation, Line, Unchecked, report_failed, report_good

_SHOWN = 5


def check_broker(installation: Installation) -> Iterator[Line]:
    """Check that the broker answers."""
    if _is_embedded(installation):
        yield report_good("broker", "embedded: `sandpiper serve` runs the jobs itself")
    elif failure := installation.broker():
        finding, _, advice = str(failure).partition("; ")
        yield report_failed("broker", finding, advice)
    else:
        yield report_good("broker", f"{installation.settings.broker.partition('://')[0]} answers")


def check_workers(installation: Installation) -> Iterator[Line]:
    """Check that a worker answers through the broker."""
    if _is_embedded(installation):
        return
    if installation.broker():
        raise Unchecked("the broker does not answer")
    if workers := installation.workers():
        shown = ", ".join(sorted(workers)[:_SHOWN])
        yield report_good("workers", f"{len(workers)}: {shown}")
    else:
        advice = "start `sandpiper worker` with the same SANDPIPER_BROKER"
        yield report_failed("workers", "none answers: triggers wait in the queue", advice)


def _is_embedded(installation: Installation) -> bool:
    return installation.settings.broker.startswith("memory://")
