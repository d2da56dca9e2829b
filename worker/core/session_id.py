"""The name of a session, and the hidden marker by which a note names it."""

import hashlib
import re
from dataclasses import dataclass

_MARKER = re.compile(r"<!-- sandpiper:session=([0-9a-f]{20}) turn=(\d{1,6}) -->")


SUGGESTIONS = range(999_001, 999_004)
"""The "turns" in the markers of suggestions on the diff, which are none of the session's turns."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Which session and turn a note belongs to. Believed only on a note of the bot's own user."""

    session_id: str
    turn: int

    def text(self) -> str:
        """The marker as it stands in a note's body."""
        return f"<!-- sandpiper:session={self.session_id} turn={self.turn} -->"


def find_marker(body: str) -> Marker | None:
    """The marker at the very start of a note's body, where only we put one."""
    found = _MARKER.match(body)
    return Marker(found[1], int(found[2])) if found else None


def session_id(
    gitlab_url: str, project_id: int, mr_iid: int, pipeline_id: int, workflow: str, salt: str = ""
) -> str:
    """The same for every delivery of one pipeline's failure (design, "Store layout").

    `salt` sets a dry run's session apart, so that it never stands in for a posted one.
    """
    parts = [gitlab_url.rstrip("/"), str(project_id), str(mr_iid), str(pipeline_id), workflow, salt]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
