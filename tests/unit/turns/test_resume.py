"""A turn that another run left in the middle: what is done again, what is not, what is told."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import Sandbox, SandboxError
from tests.contexts import call
from tests.fakes import EchoToolbox, MemorySandbox, says
from tests.jobs import FINDING, EchoToolset, Job, run_trigger
from worker.conversation.context import SessionKey
from worker.conversation.context_json import dump_context
from worker.conversation.events import ignore_event
from worker.conversation.messages import ToolCall, ToolResult, find_results
from worker.errors import CIRCUIT_OPEN, HandedOver, ModelError, Postponed, StoreError
from worker.jobs.commands import CommandAnswered
from worker.sessions.folder import FolderStore
from worker.tools.source import Ran, Toolbox
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Attempt, Ended, Finished, Stopped
from worker.turns.sandbox import Workspace


class Killed(BaseException):
    """The process ends here; nothing of ours may run but what a dead process cannot undo."""


@dataclass
class Tools(EchoToolbox):
    """`run` changes things, `look` reads; dies at the calls named in `dies`."""

    dies: set[str] = field(default_factory=set)

    def is_repeatable(self, call: ToolCall) -> bool:
        return call.name == "look"

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for ran in super().run(calls, first):
            if ran.result.call_id in self.dies:
                raise Killed
            yield ran


class Engine:
    """Sandboxes that outlive whoever started them, unless they were closed."""

    def __init__(self) -> None:
        self.left: MemorySandbox | None = None
        self.archives: list[bytes | None] = []

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        self.archives.append(None if archive is None else b"".join(archive))
        self.left = MemorySandbox()
        return self.left

    def adopt(self, session: str) -> Sandbox | None:
        return self.left if self.left and not self.left.gone else None


@dataclass
class World:
    """A job whose runs can be killed."""

    at: Job
    tools: Tools = field(default_factory=Tools)
    engine: Engine = field(default_factory=Engine)

    def run(self, **changes: Any) -> Ended | CommandAnswered | object:
        toolset = _Toolset(self.tools)
        return self.at.run_failed(
            toolset=lambda subject, flow: toolset, sandboxes=self.engine, **changes
        )

    def told(self) -> str:
        """The newest request, as text."""
        return str(self.at.model.requests[-1].messages)

    def answers_of(self, request: int = -1) -> list[ToolResult]:
        return list(find_results(self.at.model.requests[request].messages))


@dataclass
class _Toolset(EchoToolset):
    toolbox: Any = None

    def open_toolbox(self, sandbox: Sandbox, errors: str) -> Toolbox:
        made: Toolbox = self.toolbox
        return made


@pytest.fixture
def world(at: Job) -> World:
    return World(at)


def test_a_command_that_may_have_run_is_not_run_again_and_the_model_is_told(world: World) -> None:
    calls = [call("c1", "run", '{"n": 1}'), call("c2", "run", '{"n": 2}'), call("c3", "look")]
    world.at.script_answers(says("", *calls), FINDING)
    world.tools.dies = {"c2"}
    with pytest.raises(Killed):
        world.run()
    assert [each.id for each, _ in world.tools.ran] == ["c1", "c2"]
    world.tools.dies = set()
    assert isinstance(world.run(), Finished)
    assert [each.id for each, _ in world.tools.ran] == ["c1", "c2", "c3"]
    one, two, three = sorted(world.answers_of(), key=lambda each: each.call_id)
    assert one.content == '{"n": 1}'
    assert two.is_error
    assert "may have run" in two.content
    assert not three.is_error
    assert len(world.at.list_notes()) == 1


@pytest.mark.parametrize("by_older_version", [False, True])
def test_a_command_is_not_run_again_in_the_turn_after_one_that_waited_in_vain(
    world: World, by_older_version: bool
) -> None:
    """The turn waited for a model that was down until the day's budget was used up."""
    at, toolset = world.at, _Toolset(world.tools)
    budget = DayBudget(at.store.records, at.clock, 1.0)
    parts = at.build_deps(toolset=lambda *_: toolset, sandboxes=world.engine, budget=budget)
    at.script_answers(ModelError("down", kind=CIRCUIT_OPEN))
    with pytest.raises(Postponed):
        run_trigger(at.make_trigger(), parts, Attempt(may_postpone=True))
    budget.add_cost(at.scene.project.id, "other", 0, 5.0)
    assert isinstance(run_trigger(at.make_trigger(), parts, Attempt(may_postpone=True)), Finished)
    assert not at.load_context().handed_over
    if by_older_version:
        kept = dump_context(replace(at.load_context(), handed_over=True))
        (Path(at.store.describe_location(at.find_key(), 0)) / "context.json").write_bytes(kept)
    at.clock.time += 86_400.0
    at.script_answers(says("", call("c1", "run")), says("It is the disk."))
    asked = at.write_comment("Please run it.", at.list_notes()[0].discussion_id)
    for world.tools.dies in ({"c1"}, set()):
        with suppress(Killed):
            at.run_comment(asked, toolset=lambda *_: toolset, sandboxes=world.engine, budget=budget)
    assert [each.id for each, _ in world.tools.ran] == ["c1"]
    assert "It is the disk." in at.list_notes()[-1].body


def test_at_most_the_model_call_in_flight_is_made_again(world: World) -> None:
    _killed_after_a_command(world)
    assert isinstance(world.run(), Finished)
    assert len(world.at.model.requests) == 2
    assert [each.id for each, _ in world.tools.ran] == ["c1"]


def test_a_sandbox_that_is_alive_is_gone_on_with_in_silence(world: World) -> None:
    before = _killed_after_a_command(world)
    assert isinstance(world.run(), Finished)
    assert world.engine.archives == [None]
    assert "replaced by another one" not in world.told()
    assert before.gone


def test_a_sandbox_that_is_gone_is_told_of_once(world: World) -> None:
    _killed_after_a_command(world).gone = True
    world.at.script_answers(says("", call("c1", "run")), says("", call("c2", "look")), FINDING)
    assert isinstance(world.run(), Finished)
    assert "is gone. Fetch again" in world.told()
    assert world.told().count("replaced by another one") == 1


def _killed_after_a_command(world: World) -> MemorySandbox:
    def die(iteration: int) -> None:
        if iteration == 2:
            raise Killed

    world.at.on_asking = die
    world.at.script_answers(says("", call("c1", "run")), FINDING)
    with pytest.raises(Killed):
        world.run()
    world.at.on_asking = lambda iteration: None
    assert world.engine.left is not None
    return world.engine.left


def test_what_is_handed_over_is_gone_on_with_as_it_was(world: World) -> None:
    def end(iteration: int) -> None:
        world.at.leases.is_stopping = True

    world.at.on_asking = end
    world.at.script_answers(says("", call("c1", "run")), FINDING)
    with pytest.raises(HandedOver):
        world.run()
    assert world.tools.ran == []
    assert world.engine.left is not None
    assert world.engine.left.gone
    world.at.leases.is_stopping = False
    world.at.on_asking = lambda iteration: None
    assert isinstance(world.run(), Finished)
    assert [each.id for each, _ in world.tools.ran] == ["c1"]
    assert world.engine.archives == [None, b"tar"]
    assert not any(each.is_error for each in world.answers_of())


def test_a_run_that_is_stopped_keeps_its_files(world: World) -> None:
    def stop(iteration: int) -> None:
        if iteration == 2:
            raise Stopped("superseded by pipeline 5")

    world.at.on_asking = stop
    world.at.script_answers(says("", call("c1", "run")), FINDING)
    ended = world.run()
    assert isinstance(ended, Finished)
    files = world.at.store.open_files(ended.key, 0)
    assert files is not None
    with files as chunks:
        assert b"".join(chunks) == b"tar"


class Picky(Engine):
    """It takes no archive."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = threading.Event()

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        if archive is not None:
            raise SandboxError("that is no archive")
        self.tried.set()
        return super().start(session, archive)


def test_files_that_cannot_be_restored_are_told_of_to_the_model_and_in_the_note(
    world: World,
) -> None:
    looked = says("", call("c0", "look"))
    again = [says("", call(f"c{number}", "look", f'{{"n": {number}}}')) for number in (1, 2)]
    world.at.script_answers(looked, FINDING, *again, says("Because."))
    assert isinstance(world.run(), Finished)
    (root,) = world.at.list_notes()
    engine = Picky()

    def wait(iteration: int) -> None:
        if iteration > 1:
            assert engine.tried.wait(10)
            for thread in threading.enumerate():
                if thread.name.startswith("sandbox-start"):
                    thread.join(10)

    world.at.on_asking = wait
    note = world.at.write_comment("Why?", root.discussion_id)
    toolset = _Toolset(world.tools)
    ended = world.at.run_comment(note, toolset=lambda subject, flow: toolset, sandboxes=engine)
    assert isinstance(ended, Finished)
    assert "saved files could not be restored" in world.told()
    assert "files of earlier turns could not be restored" in ended.body


class Away(FolderStore):
    """A store that does not take checkpoints for a while."""

    away = 0

    def write_checkpoint(self, key: Any, turn: int, context: bytes) -> None:
        if self.away:
            self.away -= 1
            raise StoreError("S3 is away", transient=True)
        super().write_checkpoint(key, turn, context)


class Unread(FolderStore):
    """A store that cannot be read now and then."""

    away = 0

    def open_files(self, key: Any, turn: int) -> AbstractContextManager[Iterator[bytes]] | None:
        if self.away:
            self.away -= 1
            raise StoreError("S3 is away", transient=True)
        return super().open_files(key, turn)


def test_a_store_that_is_away_while_a_sandbox_is_replaced_is_asked_again(
    world: World, tmp_path: Path
) -> None:
    store, key = Unread(tmp_path), SessionKey(7, 42, "0123456789abcdef0123")
    store.write_files(key, 0, [b"kept"])
    deps = world.at.build_deps(sessions=store, sandboxes=world.engine)
    work = Workspace(key, 1, [0], deps, ignore_event, begun=False, worked=False)
    store.away = 1
    assert work.replace_sandbox("it died") == 0
    work.close()
    assert world.engine.archives[-1] == b"kept"


def test_a_worker_that_ends_starts_no_sandbox_in_place_of_a_lost_one(
    world: World, tmp_path: Path
) -> None:
    store, key = FolderStore(tmp_path), SessionKey(7, 42, "0123456789abcdef0123")
    deps = world.at.build_deps(sessions=store, sandboxes=world.engine)
    work = Workspace(key, 1, [0], deps, ignore_event, begun=False, worked=False)
    work.sandbox.get_start_state(wait=True)
    started = len(world.engine.archives)
    deps.queue.leases.is_stopping = True
    with pytest.raises(HandedOver):
        work.replace_sandbox("another worker has taken this sandbox over")
    work.close()
    assert len(world.engine.archives) == started


def test_a_store_that_is_away_between_two_steps_costs_no_run(world: World, tmp_path: Path) -> None:
    store = Away(tmp_path)
    store.away = 2
    world.at.script_answers(says("", call("c1", "run")), FINDING)
    assert isinstance(world.run(sessions=store), Finished)
    assert len(world.at.list_notes()) == 1


class Deadly(FolderStore):
    """A store whose worker dies when the note is posted and the turn is not committed."""

    def commit_turn(self, key: Any, turn: int, context: bytes) -> None:
        raise Killed


def test_a_worker_that_dies_between_the_note_and_the_commit_costs_no_model_call_and_no_note(
    world: World, tmp_path: Path
) -> None:
    world.at.script_answers(FINDING)
    with pytest.raises(Killed):
        world.run(sessions=Deadly(tmp_path))
    (note,) = world.at.list_notes()
    said = note.body
    assert "A race in the test." in said
    assert world.at.list_sessions() == []
    assert isinstance(world.run(), Finished)
    assert world.at.list_notes() == [note]
    assert note.body == said
    assert world.at.load_context().note_text == said
    assert len(world.at.model.requests) == 1


class Uncommitted(FolderStore):
    """A store that is away when the work is done."""

    away = 3

    def commit_turn(self, key: Any, turn: int, context: bytes) -> None:
        if self.away:
            self.away -= 1
            raise StoreError("S3 is away", transient=True)
        super().commit_turn(key, turn, context)


def test_work_that_is_done_waits_for_a_store_that_is_away(world: World, tmp_path: Path) -> None:
    world.at.script_answers(FINDING)
    assert isinstance(world.run(sessions=Uncommitted(tmp_path)), Finished)
    assert len(world.at.model.requests) == 1


def test_a_worker_that_was_taken_for_dead_posts_nothing(world: World) -> None:
    def taken(iteration: int) -> None:
        for name in world.at.store.records.list_names("workers/"):
            world.at.store.records.delete(name)

    world.at.on_asking = taken
    world.at.script_answers(FINDING)
    with pytest.raises(Exception, match="another worker has taken over"):
        world.run()
    (note,) = world.at.list_notes()
    assert "A race" not in note.body
    assert world.engine.left is not None
    assert not world.engine.left.gone
    assert world.at.list_sessions() == []
