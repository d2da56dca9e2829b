"""The broker, and who works on what it holds."""

from collections.abc import Iterator

from worker.doctor.base import Line, Patient, Unchecked, failed, good

_SHOWN = 5


def broker(patient: Patient) -> Iterator[Line]:
    """It answers."""
    if _embedded(patient):
        yield good("broker", "embedded: `sandpiper serve` runs the jobs itself")
    elif reason := patient.broker():
        advice = "start it, and see that SANDPIPER_BROKER is its address, user and password"
        yield failed("broker", reason, advice)
    else:
        yield good("broker", f"{patient.settings.broker.partition('://')[0]} answers")


def workers(patient: Patient) -> Iterator[Line]:
    """Somebody answers through it."""
    if _embedded(patient):
        return
    if patient.broker():
        raise Unchecked("the broker does not answer")
    if found := patient.workers():
        shown = ", ".join(sorted(found)[:_SHOWN])
        yield good("workers", f"{len(found)}: {shown}")
    else:
        advice = "start `sandpiper worker` with the same SANDPIPER_BROKER"
        yield failed("workers", "none answers: triggers wait in the queue", advice)


def _embedded(patient: Patient) -> bool:
    return patient.settings.broker.startswith("memory://")
