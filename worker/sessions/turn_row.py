"""A turn in the operators' list: what it was about and how it ended."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from worker.answer.parse import parse_finding
from worker.conversation.context import Context
from worker.conversation.tiers import REPLY
from worker.safety.sentences import before_code, split_sentences
from worker.safety.untrusted import one_line
from worker.stored_keys import KEY, from_stored, pick_known, to_stored

RUNNING = "running"
_TEXT = 500
_JOBS, _CAUSE = 160, 240


class RowError(ValueError):
    """The bytes are not a row of the list."""


@dataclass(frozen=True, slots=True)
class Row:
    """A turn. `started_at` is in epoch seconds, `seconds` is its duration, `status` as in
    `context.Status` or RUNNING. `cost_usd` is None where a price is unknown. `label` says
    whether the verdict was right, as far as that is known (see `failure.outcomes`), and
    `label_reason` why. `jobs` are the names of the failing jobs, `cause` is the first sentence of
    the cause, redacted, and "" if the note is internal. `look` is the turn that first looked at the
    failure that this one is about. `dry_run` says that nothing of the turn was posted, `began_dry`
    that nothing of its session's first turn was, `given_up` that it was given up (see `Context`).
    `title` and `author` are the merge request's."""

    session_id: str
    project_id: int
    project: str
    mr_iid: int
    web_url: str
    pipeline_id: int
    turn: int
    started_at: float = field(metadata={KEY: "started"})
    status: str
    verdict: str = ""
    model: str = ""
    iterations: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    tier: str = ""
    label: str = ""
    label_reason: str = ""
    jobs: str = ""
    cause: str = ""
    look: int = 0
    dry_run: bool = False
    began_dry: bool = False
    title: str = ""
    author: str = ""
    given_up: bool = False


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
    named = f"-{row.project_id}-{row.mr_iid}-{row.session_id}-{row.turn:04d}"
    if not place.removesuffix(".json").endswith(named):
        raise RowError(f"the row of another turn: {named:.100}")
    return row
