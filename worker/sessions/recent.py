"""The operators' list of turns, by the time of their start: its rows, and where they are stored.

recent/{day}/{time}-{project_id}-{mr_iid}-{session_id}-{turn:04d}.json
recent/{day}/{time}-{project_id}-branch-{name}-{session_id}-{turn:04d}.json

Day and time count backwards, so that the newest turns come first in the order of names.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice

from worker.answer.parse import parse_finding
from worker.conversation.context import Context, SessionKey
from worker.conversation.tiers import REPLY
from worker.errors import StoreError, Unreadable
from worker.incidents.record import name_branch
from worker.safety.sentences import before_code, split_sentences
from worker.safety.untrusted import one_line
from worker.sessions import layout
from worker.sessions.layout import END, RECENT
from worker.sessions.objects import Objects
from worker.stored_keys import KEY, from_stored, pick_known, to_stored

MAX_NAMES = 10_000
"""The most names after the cursor that are read to find one page of rows; more only if more rows
are wanted."""

MAX_ROW = 16 * 1024
"""The most bytes of a row."""

RUNNING = "running"

_TEXT = 500
_JOBS, _CAUSE = 160, 240

_DAY = 86_400_000


class RecentTurns:
    """The list of turns in a store. All methods raise StoreError."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put_row(self, key: SessionKey, turn: int, at: float, row: bytes) -> None:
        """List a turn that began `at` (epoch seconds), or replace its row."""
        layout.make_turn_prefix(key, turn)  # raises StoreError for an invalid key
        left = min(max(END - 1 - int(at * 1000), 0), END - 1)
        name = f"{RECENT}{left // _DAY:06d}/{left:013d}{_write_place(key, turn)}.json"
        if len(row) > MAX_ROW:
            raise StoreError(
                f"{self._objects.describe_place(name)} would be larger than {MAX_ROW} bytes"
            )
        self._objects.write(name, row)

    def list_newest(
        self, limit: int, before: str = "", project_id: int = 0
    ) -> Iterator[tuple[str, bytes]]:
        """List rows with their cursors, the newest first; only those after the cursor `before`.

        At most `limit` rows are read, and some thousand names.
        """
        found = ((name, layout.parse_row(name)) for name in self._objects.list_names(RECENT))
        later = ((name, row) for name, row in found if row and row.cursor > before)
        wanted = (
            (name, row)
            for name, row in islice(later, max(MAX_NAMES, limit))
            if not project_id or row.project_id == project_id
        )
        for name, row in islice(wanted, limit):
            with suppress(Unreadable):
                if stored := self._objects.read(name, MAX_ROW):
                    yield row.cursor, stored.content


def _write_place(key: SessionKey, turn: int) -> str:
    """Return what the name of a turn's row has after its time."""
    return f"-{key.project_id}-{key.place}-{key.session_id}-{turn:04d}"


class RowError(ValueError):
    """The bytes are not a row of the list."""


@dataclass(frozen=True, slots=True)
class Row:
    """A turn in the list."""

    session_id: str
    project_id: int
    project: str
    """The project's path."""
    mr_iid: int
    """The merge request's; 0 for the pipeline of a branch."""
    web_url: str
    """The merge request's address, or the branch's."""
    pipeline_id: int
    turn: int
    started_at: float = field(metadata={KEY: "started"})
    """When it began, in epoch seconds."""
    status: str
    """As in `context.Status`, or RUNNING."""
    verdict: str = ""
    model: str = ""
    iterations: int = 0
    cost_usd: float | None = 0.0
    """None where a price is unknown."""
    seconds: float = 0.0
    """How long it took."""
    tier: str = ""
    label: str = ""
    """Whether the verdict was right, as far as that is known (see `verdict.outcomes`)."""
    label_reason: str = ""
    jobs: str = ""
    """The names of the failing jobs."""
    cause: str = ""
    """The first sentence of the cause, redacted; "" if the note is internal."""
    look: int = 0
    """The turn that first looked at the failure that this one is about."""
    dry_run: bool = False
    """Nothing of the turn was posted."""
    began_dry: bool = False
    """Nothing of its session's first turn was posted."""
    title: str = ""
    """The merge request's title."""
    author: str = ""
    """The merge request's author."""
    given_up: bool = False
    """The turn was given up (see `Context`)."""
    branch: str = ""
    """The branch of a pipeline that is no merge request's."""

    @property
    def name(self) -> str:
        """What people call its subject: `group/project!12`, or `group/project@main`."""
        return f"{self.project}@{self.branch}" if self.branch else f"{self.project}!{self.mr_iid}"

    @property
    def key(self) -> SessionKey:
        """The key of its session."""
        branch = name_branch(self.branch) if self.branch else ""
        return SessionKey(self.project_id, self.mr_iid, self.session_id, branch)


def make_row(context: Context, redact: Callable[[str], str] = str) -> Row:
    """The row of a turn in its present state."""
    subject, spent = context.subject, context.turn_usage
    groups = context.survey.groups if context.survey else ()
    hidden = context.note is not None and context.note.internal
    text = context.outcome.text if context.outcome and context.verdict and not hidden else ""
    sentences = split_sentences(before_code(redact(parse_finding(text).cause)))
    return Row(
        session_id=context.session_id,
        project_id=subject.project_id,
        project=one_line(subject.project, _TEXT),
        mr_iid=subject.mr_iid,
        web_url=one_line(subject.web_url, 4 * _TEXT),
        pipeline_id=subject.pipeline_id,
        turn=context.turn,
        started_at=spent.started_at,
        status=context.outcome.status.value if context.outcome else RUNNING,
        verdict=context.verdict,
        model=one_line(context.model, _TEXT),
        iterations=spent.iterations,
        cost_usd=spent.cost_usd,
        seconds=context.seconds,
        tier=REPLY if context.reply_model else context.tier.tier if context.tier else "",
        jobs=one_line(redact(", ".join(group.job_names for group in groups)), _JOBS),
        cause=one_line(next(iter(sentences), ""), _CAUSE),
        look=context.look,
        dry_run=context.dry_run,
        began_dry=context.began_dry,
        title=one_line(subject.title, _TEXT),
        author=one_line(subject.author, _TEXT),
        given_up=context.is_given_up,
        branch=subject.branch,
    )


def dump_row(row: Row) -> bytes:
    """Encode a row as JSON."""
    return json.dumps(to_stored(row), ensure_ascii=False).encode(errors="replace")


def parse_project_id(project: str) -> int:
    """The id in an operator's `project` argument; 0 if that is a path or a glob."""
    return int(project) if project.isascii() and project.isdigit() and len(project) < 19 else 0


def matches_project(project: str, path: str) -> bool:
    """Whether the project at `path` matches an operator's `project` argument: a path or a glob."""
    return not project or fnmatchcase(path, project)


def make_filter(project: str) -> Callable[[int, str], bool]:
    """Make a function that says whether a project (id, path) matches an operator's argument.

    The argument is an id, a path or a glob; "" matches all projects.
    """
    number = parse_project_id(project)
    return lambda id_, path: id_ == number if number else matches_project(project, path)


def load_row(data: bytes) -> Row:
    """Read the bytes of `dump_row`, ignoring fields of later versions. Raises RowError."""
    try:
        return from_stored(Row, pick_known(Row, json.loads(data)))
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"not a row of the list: {error!r}") from error


def load_row_of(place: str, data: bytes) -> Row:
    """Read the row at `place`: its name, or its cursor. Raises RowError, also if it is of another
    turn: a link to a session's page is made from where its row lay."""
    row = load_row(data)
    named = _write_place(row.key, row.turn)
    if not place.removesuffix(".json").endswith(named):
        raise RowError(f"the row of another turn: {named:.100}")
    return row
