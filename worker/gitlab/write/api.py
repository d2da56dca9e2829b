"""GitLab's REST API through the write token: what all writers need. Every error becomes a
ForgeError."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gitlab.exceptions import GitlabParsingError

from worker.errors import ForgeError
from worker.gitlab.client import (
    FOREIGN,
    IN_PLACE,
    RETRIES,
    TIMEOUT,
    Connections,
    decode_json,
    explain_failure,
)

Json = dict[str, Any]

MAX_ANSWER = 128 * 1024 * 1024
"""The most bytes of one answer: a page of the longest notes that GitLab allows."""

SETTLE = (1.0, 5.0, 15.0)
"""Seconds to wait, one after another, before looking whether GitLab carried out a write late."""

LATE = (0, 504)
"""The status of a write that GitLab may still be carrying out: no answer, or a proxy's time-out."""

IDEMPOTENT: Json = {"retry_transient_errors": True, "max_retries": RETRIES}
"""Options of requests that may be repeated."""

POSTED: Json = {"retry_transient_errors": False, "max_retries": RETRIES}
"""Options of a POST: if it was rate-limited it was not processed and may be repeated, else not."""


class WriteClient:
    """A GitLab instance and the write token. Safe to share by threads."""

    def __init__(self, url: str, token: str, timeout: tuple[float, float] = TIMEOUT) -> None:
        self.connections = Connections(url, token, timeout)
        self._me: tuple[int, str] | None = None

    def get_user(self) -> tuple[int, str]:
        """Return the id and the name of the write token's user; GitLab is asked once."""
        if self._me is None:
            found = self.get("/user", "the write token's user")
            self._me = get_id(found), str(found.get("username", ""))
        return self._me

    def get(self, path: str, what: str, query: Json | None = None) -> Any:
        """Return the JSON at `path` (below /api/v4); `what` names it in errors."""
        with (
            self.translate_errors(what),
            self.connections.get().http_request(
                "get", path, query_data=query, streamed=True, **IDEMPOTENT
            ) as response,
        ):
            return decode_json(response, MAX_ANSWER)

    def list_pages(
        self, path: str, what: str, name: str, pages: int, per_page: int, query: Json | None = None
    ) -> Iterator[Json]:
        """Yield the objects of a list, whose first `pages` pages are read one by one; `name` says
        what they are."""
        for page in range(1, pages + 1):
            wanted = {**(query or {}), "per_page": per_page, "page": page}
            found = list_objects(self.get(path, what, wanted), name)
            yield from found
            if len(found) < per_page:
                return

    def post(self, path: str, what: str, fields: Json) -> Json:
        """Send a POST, never twice unless GitLab has refused it for its rate; return the object
        that was made."""
        with self.translate_errors(what):
            answer = self.connections.get().http_post(path, post_data=fields, **POSTED)
            return require_object(answer, what)

    def put(self, path: str, what: str, fields: Json) -> Json:
        """Change an object, and return it. This is idempotent, so it is retried."""
        with self.translate_errors(what):
            answer = self.connections.get().http_put(path, post_data=fields, **IDEMPOTENT)
            return require_object(answer, what)

    @contextmanager
    def translate_errors(self, what: str) -> Iterator[None]:
        """Raise ForgeError for the errors of python-gitlab and of what it uses."""
        try:
            yield
        except FOREIGN as error:
            failure = explain_failure(error, what, "write", self.connections.url)
            raise ForgeError(
                failure.text,
                transient=failure.transient,
                doubtful=failure.doubtful,
                status=failure.status,
            ) from error


def require_object(answer: object, what: str) -> Json:
    """Return an object that has an id. Raises GitlabParsingError: all else is not GitLab's."""
    if not isinstance(answer, dict) or answer.get("id") is None:
        raise GitlabParsingError(f"{what}: no object with an id")
    return answer


def get_author_id(note: Json) -> object:
    """Return the id of the author of a note or an issue, or what stands there."""
    return read_field(note.get("author"), "id")


def get_id(answer: object, name: str = "id") -> int:
    """Return the id of an object. Raises ForgeError if it has none."""
    value = read_field(answer, name)
    if not isinstance(value, int):
        raise _make_odd_answer(f"GitLab's answer has no {name}")
    return value


def read_field(answer: object, name: str) -> object:
    """Return a field of an answer; None if it has none, or is not an object."""
    return answer.get(name) if isinstance(answer, dict) else None


def list_objects(found: object, name: str) -> list[Json]:
    """Return the objects in a list; `name` says what they are. Raises ForgeError if it is none."""
    if not isinstance(found, list):
        raise _make_odd_answer(f"GitLab's answer has no list of {name}")
    return [each for each in found if isinstance(each, dict)]


def _make_odd_answer(text: str) -> ForgeError:
    """Make the error for an answer that is not GitLab's."""
    return ForgeError(f"{text}{IN_PLACE}", transient=True, doubtful=True)
