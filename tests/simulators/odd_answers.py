"""Answers that no GitLab and no S3 gives: those of a proxy, a gateway or a restart in between.

They are scripted: each kind has one name, and a kind that is not here cannot be asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from worker.lab.gitlab.protocol import Answer

PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Maintenance</title></head>"
    b"<body><h1>We will be back in a moment</h1></body></html>\n"
)
_HTML: Mapping[str, str] = {"content-type": "text/html; charset=utf-8"}


class OddGitLab(StrEnum):
    """What stands in front of GitLab, or GitLab while it restarts, answers instead of it."""

    PAGE = "page"
    """200 with a proxy's HTML."""
    LOGIN = "login"
    """302 to a page that asks for a login."""
    UNAUTHORIZED = "401"
    """401 in GitLab's JSON, to a token that is valid."""
    FORBIDDEN = "403"
    """403 with a proxy's HTML."""
    MISSING = "404"
    """404 in GitLab's JSON, of what is there."""
    EMPTY = "empty"
    """200 with `{}`."""


class OddS3(StrEnum):
    """What a gateway in front of S3 answers with status 200."""

    PAGE = "page"
    """A page of HTML."""
    EMPTY = "empty"
    """Nothing, and none of S3's headers."""
    HALF = "half"
    """The first half of the true body, under the true headers."""
    HALF_BARE = "half-bare"
    """The first half of the true body, and none of S3's headers."""


@dataclass(frozen=True, slots=True)
class Given:
    """An odd answer as it was given: its kind, and to what."""

    kind: str
    method: str
    path: str
    at: float = field(compare=False, default=0.0)


def make_odd_answer(kind: OddGitLab) -> Answer:
    """Return what is sent in GitLab's place."""
    match kind:
        case OddGitLab.PAGE:
            return Answer(200, headers=_HTML, raw=PAGE)
        case OddGitLab.LOGIN:
            return Answer(302, headers={**_HTML, "location": "/users/sign_in"}, raw=b"")
        case OddGitLab.UNAUTHORIZED:
            return Answer(401, {"message": "401 Unauthorized"})
        case OddGitLab.FORBIDDEN:
            return Answer(403, headers=_HTML, raw=PAGE)
        case OddGitLab.MISSING:
            return Answer(404, {"message": "404 Not Found"})
        case OddGitLab.EMPTY:
            return Answer(200, {})
