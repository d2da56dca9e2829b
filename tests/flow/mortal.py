"""The product with a death in it: `python -m tests.flow.mortal POINT ONCE COMMAND …`.

COMMAND is `serve` or `worker` with its options. The process kills itself with SIGKILL when it comes
to POINT, the first time only: the file ONCE remembers, for the processes that follow. At "frozen
POINT" it stops instead, until it is sent SIGCONT.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sandbox.base import Sandbox
from tests.parts import change_parts
from worker import wiring
from worker.cli import serve, worker
from worker.conversation.messages import ToolCall
from worker.conversation.model import Reply, Request
from worker.tools.source import Ran
from worker.turns.parts import Deps

FROZEN = "frozen "


class Death:
    """Comes once, at one point."""

    def __init__(self, point: str, once: Path) -> None:
        self._point, self._once = point.removeprefix(FROZEN), once
        self._how = signal.SIGSTOP if point.startswith(FROZEN) else signal.SIGKILL

    def at(self, point: str) -> None:
        if point != self._point:
            return
        try:
            self._once.touch(exist_ok=point == "always")
        except FileExistsError:
            return
        # To this thread, so that it does not take another step.
        signal.pthread_kill(threading.get_ident(), self._how)


class MortalPart:
    """A part with deaths before and after some of its methods."""

    def __init__(self, part: Any, death: Death, before: Any = (), after: Any = ()) -> None:
        self._part, self._death = part, death
        self._before, self._after = dict(before), dict(after)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in self._before and name not in self._after:
            return found

        def called(*arguments: Any, **options: Any) -> Any:
            self._death.at(self._before.get(name, ""))
            given = found(*arguments, **options)
            self._death.at(self._after.get(name, ""))
            return given

        return called


class MortalWriter(MortalPart):
    """The write that matters is the result's, not the progress's."""

    def edit_note(self, *arguments: Any, **options: Any) -> None:
        if not options.get("hurried"):
            self._death.at("before the edit")
        self._part.edit_note(*arguments, **options)
        if not options.get("hurried"):
            self._death.at("after the edit")


class Model(MortalPart):
    """While the first one is asked the sandbox may still be starting; at the others it stands."""

    asked = False

    def reply(self, request: Request) -> Reply:
        given: Reply = self._part.reply(request)
        self._death.at("in a model call")
        if self.asked:
            self._death.at("in a later model call")
        self.asked = True
        return given


class MortalToolset(MortalPart):
    """Tools that are killed after a command has run, before its result is kept."""

    def open_toolbox(self, sandbox: Sandbox, errors: str) -> Any:
        return Toolbox(self._part.open_toolbox(sandbox, errors), self._death)


class Toolbox(MortalPart):
    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for ran in self._part.run(calls, first):
            if ran.result.name == "sandbox_exec":
                self._death.at("in a command")
            yield ran


def parts(made: Deps, death: Death) -> Deps:
    """The product's parts, mortal."""
    return change_parts(
        made,
        reader=MortalPart(
            made.gitlab.pipelines,
            death,
            before={"find_failure": "before the claim", "read_thread": "always"},
            after={"read_branch": "after the branch is read"},
        ),
        sessions=MortalPart(
            made.storage.sessions,
            death,
            before={"read_checkpoint": "after the claim"},
            after={"commit_turn": "after the commit"},
        ),
        notes=MortalWriter(made.gitlab.notes, death, after={"post_note": "after the post"}),
        model=lambda: Model(made.runtime.model(), death),
        toolset=lambda subject, workflow: MortalToolset(
            made.runtime.toolset(subject, workflow), death
        ),
        incidents=MortalPart(
            made.storage.incidents,
            death,
            after={"change_branch": "after the branch is stored"},
        ),
        incident_writer=MortalPart(
            made.gitlab.incident_writer,
            death,
            before={"retry_job": "before a run again"},
            after={"retry_job": "after a run again", "put_issue": "after the issue"},
        ),
    )


def main(point: str, once: str, command: str, *options: str) -> None:
    settings = wiring.load_settings(None)
    death = Death(point, Path(once))

    def make() -> Deps:
        return parts(wiring.build_deps(settings), death)

    if command == "serve":
        serve.run_receiver(settings, make, wiring.bind_port("127.0.0.1", int(options[0])), 2)
    else:
        worker.run_worker(settings, make, 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
