"""A worker that breaks whenever a finding is told: `python -m tests.flow.poisoned`.

What breaks is a bug of ours, no error that anybody has foreseen: a note's text that cannot be
written. The plain reason that is told instead can.
"""

from typing import Any

from tests.parts import change_parts
from worker import wiring
from worker.cli import worker
from worker.turns.parts import Deps


class PoisonedWriter:
    """The product's, but for findings."""

    def __init__(self, notes: Any) -> None:
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._notes, name)

    def edit_note(self, subject: Any, note: Any, body: str, **options: Any) -> None:
        """As the product's, but for findings."""
        if "The command ran" in body:
            raise ValueError("this body is poison")
        self._notes.edit_note(subject, note, body, **options)


def main() -> None:
    """Work until SIGTERM."""
    settings = wiring.load_settings(None)

    def make() -> Deps:
        made = wiring.build_deps(settings)
        return change_parts(made, notes=PoisonedWriter(made.gitlab.notes))

    worker.run_worker(settings, make, 2)


if __name__ == "__main__":
    main()
