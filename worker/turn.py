"""One turn of a session: the placeholder, the sandbox, the loop, the note, the files."""

import logging
from contextlib import closing
from dataclasses import dataclass, replace

from sandbox.base import Sandbox, SandboxError
from sandbox.soon import start_soon
from worker.core import finding, history
from worker.core.absorb import halt
from worker.core.context import Context, NoteRef, Outcome, Status
from worker.core.decide import conclude
from worker.core.identity import Marker
from worker.core.ports import SessionKey
from worker.core.progress import Stage, Watcher
from worker.core.repair import close_calls, unavailable
from worker.deps import Deps, Kit
from worker.errors import SandpiperError
from worker.forge import note
from worker.loop import Parts, drive

log = logging.getLogger("sandpiper.turn")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn about to be taken. `files_of` is the turn whose sandbox files are restored."""

    key: SessionKey
    context: Context
    files_of: int | None

    @property
    def marker(self) -> Marker:
        """What the turn's note carries."""
        return Marker(self.context.session_id, self.context.turn)


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn that was taken: its final context and the body of its note."""

    context: Context
    body: str


def take(turn: Turn, deps: Deps, watch: Watcher) -> Taken:
    """Post a placeholder, run the loop, store the files, edit the note to the result.

    Raises ForgeError and StoreError: without a note or a store there is nothing to end in.
    """
    started = deps.clock.monotonic()
    context = _announced(turn, deps, watch)
    kit = deps.kit(context.subject, deps.playbook.get(context.workflow))
    context = _investigated(replace(turn, context=context), kit, deps, watch)
    body = _body(turn.marker, context, kit, deps, deps.clock.monotonic() - started)
    posted = context.note or NoteRef(0)
    deps.forge.edit(context.subject, posted, body)
    watch(Stage(f"note posted: {posted.url or posted.note_id}"))
    return Taken(context, body)


def _announced(turn: Turn, deps: Deps, watch: Watcher) -> Context:
    """The context with its note: the one a dead worker posted, or a new placeholder."""
    context = turn.context
    thread = context.note.discussion_id if context.note else ""
    posted = deps.forge.find(context.subject, turn.marker, thread)
    if posted is None:
        body = note.placeholder(turn.marker, context.subject, resumed=context.turn > 0)
        posted = deps.forge.post(context.subject, body, thread)
        watch(Stage(f"placeholder posted: {posted.url or posted.note_id}"))
    return replace(context, note=posted)


def _investigated(turn: Turn, kit: Kit, deps: Deps, watch: Watcher) -> Context:
    """Run the loop in a sandbox and store its files; ends in an outcome whatever happens."""
    last = _Last(turn, deps)
    try:
        with closing(_sandbox(turn, deps, watch)) as sandbox:
            context = _driven(last, kit, sandbox, deps, watch)
            _save_files(turn, sandbox, deps, watch)
    except (SandboxError, SandpiperError) as error:
        log.warning("session %s: %s", turn.key.session_id, error)
        context = _ended(last.context, deps.redact(str(error)))
    except Exception as error:  # seed 001, end 6: an unexpected error keeps what was found
        log.exception("session %s: unexpected error", turn.key.session_id)
        context = _ended(last.context, f"an internal error ({type(error).__name__})")
    return close_calls(context, "the turn ended first")


class _Last:
    """The newest context of the run, kept also when the loop is left by an exception."""

    def __init__(self, turn: Turn, deps: Deps) -> None:
        self.context = turn.context
        self._key, self._store, self._dumper = turn.key, deps.store, history.Dumper()

    def checkpoint(self, context: Context) -> None:
        self.context = context
        self._store.checkpoint(self._key, context.turn, self._dumper.dump(context))


def _sandbox(turn: Turn, deps: Deps, watch: Watcher) -> Sandbox:
    """A sandbox that starts while the model is asked for the first time."""
    stored = None
    if turn.files_of is not None:
        stored = deps.store.open_files(turn.key, turn.files_of)
    watch(Stage("sandbox starting" + (", its files are restored" if stored else "")))
    return start_soon(deps.sandboxes, turn.key.session_id, stored)


def _driven(last: _Last, kit: Kit, sandbox: Sandbox, deps: Deps, watch: Watcher) -> Context:
    model = deps.model()
    first = model.name
    last.context = replace(last.context, model=first)
    parts = Parts(
        model=model,
        toolbox=kit.open(sandbox),
        clock=deps.clock,
        checkpoint=last.checkpoint,
        watch=watch,
    )
    ended = drive(last.context, deps.limits_for(last.context.workflow, model), parts)
    gave_way = first if model.name != first else ""
    last.context = replace(ended, model=model.name, gave_way=gave_way)
    return last.context


def _save_files(turn: Turn, sandbox: Sandbox, deps: Deps, watch: Watcher) -> None:
    """Store the sandbox's files; without them the note still stands and a reply goes on."""
    try:
        size = deps.store.write_files(turn.key, turn.context.turn, sandbox.export())
    except SandboxError as error:
        log.warning("session %s: files not kept: %s", turn.key.session_id, error)
    else:
        watch(Stage(f"sandbox files stored: {size} bytes"))


def _ended(context: Context, reason: str) -> Context:
    if context.outcome:
        return context
    return replace(context, outcome=conclude(halt(context, reason)))


def _body(marker: Marker, context: Context, kit: Kit, deps: Deps, seconds: float) -> str:
    outcome = context.outcome or Outcome(Status.FAILED, "", "the run ended without an outcome")
    footer = note.Footer(
        model=context.model,
        iterations=context.spent.iterations,
        usage=context.spent.usage,
        cost_usd=context.spent.cost_usd,
        seconds=seconds,
        missing=unavailable(context),
        gave_way=context.gave_way,
    )
    if outcome.status is Status.FAILED:
        jobs = kit.failures() if context.turn == 0 else ()
        return note.failure(marker, context.subject, outcome.reason, footer, jobs)
    text = deps.redact(outcome.text)
    if context.turn > 0:
        return note.answer(marker, context.subject, text, outcome, footer, deps.hosts)
    proven = finding.prove(finding.parse(text), kit.lines)
    return note.finding(marker, context.subject, proven, outcome, footer, deps.hosts)
