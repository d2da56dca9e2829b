"""One turn in the operators' list: what it was about and what came out, nothing of what it said."""

import json
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from types import NoneType

from worker.core.conversation.context import Context
from worker.core.text.untrusted import one_line

RUNNING = "running"
_TEXT = 500


class RowError(ValueError):
    """The bytes are no row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A turn. `started` is in epoch seconds, `seconds` is what it took, `status` as in
    `context.Status` or RUNNING. `cost_usd` is None where a price is unknown."""

    session_id: str
    project_id: int
    project: str
    mr_iid: int
    web_url: str
    pipeline_id: int
    turn: int
    started: float
    status: str
    verdict: str = ""
    model: str = ""
    iterations: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0


def row(context: Context) -> Row:
    """The row of a turn, as it is now."""
    subject, spent = context.subject, context.spent
    return Row(
        session_id=context.session_id,
        project_id=subject.project_id,
        project=one_line(subject.project, _TEXT),
        mr_iid=subject.mr_iid,
        web_url=one_line(subject.web_url, 4 * _TEXT),
        pipeline_id=subject.pipeline_id,
        turn=context.turn,
        started=spent.started_at,
        status=context.outcome.status.value if context.outcome else RUNNING,
        verdict=context.verdict,
        model=one_line(context.model, _TEXT),
        iterations=spent.iterations,
        cost_usd=spent.cost_usd,
        seconds=context.seconds,
    )


def dump(found: Row) -> bytes:
    """As JSON."""
    return json.dumps(asdict(found), ensure_ascii=False).encode(errors="replace")


def project_id(project: str) -> int:
    """The id that an operator has given as the project, 0 for a path or a glob."""
    return int(project) if project.isascii() and project.isdigit() and len(project) < 19 else 0


def is_of(project: str, path: str) -> bool:
    """Whether the project at `path` is the one that an operator has given: a path, or a glob."""
    return not project or fnmatchcase(path, project)


_NUMBERS = {"started": (int, float), "seconds": (int, float), "cost_usd": (int, float, NoneType)}
_WHOLE = ("project_id", "mr_iid", "pipeline_id", "turn", "iterations")
_TYPES: dict[str, tuple[type, ...]] = {
    each.name: _NUMBERS.get(each.name, (int,) if each.name in _WHOLE else (str,))
    for each in fields(Row)
}


def load(data: bytes) -> Row:
    """The row of `dump`. Fields of later versions are passed over. Raises RowError."""
    try:
        found = json.loads(data)
        row = Row(**{each.name: found[each.name] for each in fields(Row) if each.name in found})
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"not a row of the list: {error!r}") from error
    for each in fields(Row):
        if not isinstance(getattr(row, each.name), _TYPES[each.name]):
            raise RowError(f"not a row of the list: its {each.name} is of the wrong type")
    return row
