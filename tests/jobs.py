"""A job over the simulated GitLab and a folder store, with a scripted model and no container."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sandbox.base import Sandbox
from tests.fakes import EchoToolbox, HandClock, MemorySandbox, ScriptedModel, says
from tests.parts import change_parts
from tests.simulators.gitlab import GitLabSim, Note, Pipeline, Scene, make_failing_merge_request
from worker.conversation.context import Context, SessionKey, Subject
from worker.conversation.context_json import dump_context, load_context
from worker.conversation.events import Asking, Event
from worker.conversation.limits import Limits
from worker.conversation.messages import ToolSpec
from worker.conversation.model import Model, Reply
from worker.conversation.triggers import PipelineFailed, PipelinePassed, Replied, Trigger
from worker.errors import ModelError, SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.write.writer import GitLabWriter
from worker.jobs import delivery
from worker.jobs.commands import CommandAnswered
from worker.queue.journal import Journal
from worker.queue.leases import Lease, Leases
from worker.sessions.folder import FolderStore
from worker.sessions.incidents import IncidentStore
from worker.sessions.ledger import LedgerStore
from worker.sessions.retries import RetryStore
from worker.settings.playbook import Playbook, Workflow
from worker.tools.source import Toolbox
from worker.turns.day_budget import DayBudget
from worker.turns.parts import (
    Attempt,
    Deps,
    Explain,
    GitLab,
    NoKnownFailures,
    Queue,
    Runtime,
    Skipped,
    Storage,
)
from worker.turns.stored_turns import make_key
from worker.verdict.finding import JobLog, Place
from worker.verdict.jobs import Survey
from worker.verdict.recalled_tests import Recall

FINDING = says(
    "## Verdict\nflaky\n\n## Cause\nA race in the test.\n\n"
    "## Evidence\n- job 1 line 1: it ran twice\n"
)
Ran = delivery.Result
_RUN = Attempt()
START = 1_795_000_000.0


class MemoryDriver:
    """Containers that are dicts."""

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        return MemorySandbox()

    def adopt(self, session: str) -> Sandbox | None:
        return None

    def check(self) -> None:
        """There is nothing to check."""


@dataclass
class OneLog:
    """One line can be proven."""

    def read_lines(self, place: Place) -> Sequence[str]:
        if place != JobLog(1):
            raise SourceError("there is no such log")
        return ["it ran twice"]

    def link_lines(self, place: Place, first: int, last: int) -> str:
        return ""


@dataclass
class EchoToolset:
    """One tool that echoes."""

    toolbox: EchoToolbox = field(default_factory=EchoToolbox)
    captures: OneLog = field(default_factory=OneLog)
    notes: str = ""
    redacted: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("look", "Look.", {"type": "object", "properties": {}}),)

    def keep_evidence(
        self, read: Callable[[], bytes | None], write: Callable[[bytes], None]
    ) -> None:
        pass

    def survey_failures(
        self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
    ) -> Survey:
        return Survey()

    def count_redactions(self) -> Mapping[tuple[str, str], int]:
        return self.redacted

    def open_toolbox(self, sandbox: Sandbox, errors: str) -> Toolbox:
        return self.toolbox


WORKFLOW = Workflow(
    name="analyze-failures",
    description="Why?",
    triggers=("pipeline_failed", "command:analyze"),
    text="Find out.\n",
)


def run_trigger(trigger: Trigger, deps: Deps, run: Attempt = _RUN) -> Ran:
    """Deal with a trigger at once."""
    return delivery.run_trigger(trigger, deps, run)


def read_reason(ended: object) -> str:
    """Read why a trigger was left alone."""
    assert isinstance(ended, Skipped)
    return ended.reason


def read_answer(ended: object) -> str:
    """Read what a command was answered with."""
    assert isinstance(ended, CommandAnswered)
    return ended.text


class Job:
    """One merge request with a failed pipeline, and everything a job needs."""

    def __init__(self, sim: GitLabSim, folder: Path) -> None:
        self.sim = sim
        self.scene: Scene = make_failing_merge_request(sim)
        self.place = folder
        self.clock = HandClock(START)
        self.store = FolderStore(folder, now=self.clock.now)
        self.leases = Leases(self.store, self.clock)
        self.model = ScriptedModel([])
        self.events: list[Event] = []
        self.on_asking: Callable[[int], None] = lambda iteration: None
        read = ReadClient(sim.url, self.scene.read_token)
        self.reader = GitLabReader(read, sim.url, (), 30, sleep=lambda seconds: None)
        self.writer = GitLabWriter(sim.url, self.scene.write_token, (2.0, 2.0), lambda s: None)

    def build_deps(self, **changes: Any) -> Deps:
        """Build the parts; `changes` replace some."""
        made = Deps(
            GitLab(
                *(self.reader, self.reader, self.reader),
                *(self.writer, self.writer, self.writer),
                self.sim.url,
                frozenset(),
            ),
            Runtime(
                model=lambda: self.model,
                sandboxes=MemoryDriver(),
                toolset=lambda subject, workflow: EchoToolset(),
                playbook=Playbook([WORKFLOW]),
                limits=Limits(context_tokens=100_000, cost_usd=10.0),
                clock=self.clock,
                redact=lambda text: text,
            ),
            Storage(
                self.store,
                NoKnownFailures(),
                self.store.recent_turns,
                DayBudget(self.store.records, self.clock, 0.0),
                IncidentStore(self.store.records, self.clock.now),
                LedgerStore(self.store.records, self.clock.now),
                RetryStore(self.store.records, self.clock.now),
            ),
            Queue(Journal(self.store.records, self.leases, self.clock), self.leases, "worker-1"),
        )
        return change_parts(made, **changes)

    def script_answers(self, *answers: Reply | ModelError) -> None:
        """Script what the model will say from now on."""
        self.model.answers = [*self.model.answers[: len(self.model.requests)], *answers]

    def run_failed(self, pipeline: Pipeline | None = None, **changes: Any) -> Ran:
        """Run the job of a failed pipeline's webhook."""
        return run_trigger(
            self.make_trigger(pipeline), self.build_deps(**changes), Attempt(self._watch)
        )

    def run_passed(self, pipeline: Pipeline, **changes: Any) -> Ran:
        """Run the job of the webhook of a pipeline that passed."""
        failed = self.make_trigger(pipeline)
        trigger = PipelinePassed(
            failed.project_id,
            failed.pipeline_id,
            failed.sha,
            failed.ref,
            failed.mr_iid,
            failed.mr_project_id,
        )
        return run_trigger(trigger, self.build_deps(**changes), Attempt(self._watch))

    def make_trigger(
        self, pipeline: Pipeline | None = None, *, dated: bool = False
    ) -> PipelineFailed:
        """Make the trigger that the door makes of the pipeline's webhook, or if it is not `dated`,
        that of an earlier version."""
        which = pipeline or self.scene.pipeline
        mr = which.mr or self.scene.mr
        ended = datetime.fromisoformat(which.finished_at or which.created_at)
        return PipelineFailed(
            *(which.project.id, which.id, which.sha, mr.source_branch, mr.iid, mr.project.id),
            finished_at=int(ended.timestamp()) if dated else 0,
        )

    def run_comment(self, note: Note | None, **changes: Any) -> Ran:
        """Run the job of a comment's webhook."""
        assert note is not None
        mr = note.merge_request
        trigger = Replied(mr.project.id, mr.iid, note.discussion_id, note.id)
        return run_trigger(trigger, self.build_deps(**changes), Attempt(self._watch))

    def write_comment(self, text: str, thread: str = "", **options: Any) -> Note:
        """Write what the developer says, without its webhook."""
        author = options.pop("author", self.scene.developer)
        made = self.sim.comment(self.scene.mr, author, text, thread, **options)
        assert made is not None
        return made

    def ask(self, text: str, thread: str = "", **options: Any) -> Ran:
        """Write what the developer says, and run the job of its webhook."""
        return self.run_comment(self.write_comment(text, thread, **options))

    def list_notes(self) -> list[Note]:
        """List the bot's notes, oldest first."""
        return [note for note in self.scene.mr.list_notes() if note.author is self.scene.bot]

    def list_sessions(self) -> list[SessionKey]:
        """List the stored sessions that have a turn."""
        return [
            key
            for key in self.store.list_sessions()
            if self.store.find_latest_turn(key) is not None
        ]

    def load_context(self, key: SessionKey | None = None) -> Context:
        """Load the latest turn of a session, of the only one by default."""
        which = key or self.list_sessions()[0]
        latest = self.store.find_latest_turn(which)
        assert latest is not None
        return load_context(self.store.read_context(which, latest))

    def load_turn(self, key: SessionKey, turn: int) -> Context:
        """Load a turn of a session."""
        return load_context(self.store.read_context(key, turn))

    def rewrite_turn(self, change: Callable[[Context], Context]) -> None:
        """Store the first turn of the only session as another version would have."""
        (key,) = self.list_sessions()
        changed = dump_context(change(self.load_turn(key, 0)))
        (place,) = self.place.glob(f"sessions/*/*/{key.session_id}/0000/context.json")
        place.write_bytes(changed)

    def find_key(self, pipeline: Pipeline | None = None) -> SessionKey:
        """Find the session of a pipeline."""
        found = self.reader.find_named_subject(
            str(self.scene.project.id), 1, pipeline.id if pipeline else None
        )
        assert isinstance(found, Subject)
        return make_key(found, WORKFLOW, self.build_deps())

    @contextmanager
    def claim_elsewhere(self, key: SessionKey, turn: int = 0) -> Iterator[Lease]:
        """Let another worker be at work on the turn, on behalf of something else."""
        with Leases(self.store, self.clock).claim_turn(key, turn, "another trigger") as held:
            assert isinstance(held, Lease)
            yield held

    def _watch(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Asking):
            self.on_asking(event.iteration)


def offer_model(model: Model) -> Callable[[], Model]:
    """A choice of model."""
    return lambda: model
