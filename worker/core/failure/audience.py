"""Who may open a project's job logs, and who reads the notes on its merge requests. Pure."""

from dataclasses import dataclass
from enum import IntEnum


class Readers(IntEnum):
    """A group of people, from the widest to the narrowest."""

    ANYONE = 0
    SIGNED_IN = 1
    MEMBERS = 2


@dataclass(frozen=True, slots=True)
class Access:
    """A project's visibility and the access levels of three of its features, as GitLab gives them.

    `public_jobs` is its "project-based pipeline visibility". What is not known counts as private.
    """

    visibility: str
    public_jobs: bool
    builds: str
    merge_requests: str
    repository: str

    @property
    def log_readers(self) -> Readers:
        """Who may open a job's log."""
        return self._find_readers(self.builds) if self.public_jobs else Readers.MEMBERS

    @property
    def note_readers(self) -> Readers:
        """Who may read a merge request, and the notes on it that are not internal."""
        return self._find_readers(self.merge_requests)

    def _find_readers(self, level: str) -> Readers:
        if "private" in (level, self.repository):
            return Readers.MEMBERS
        visible_to = {"public": Readers.ANYONE, "internal": Readers.SIGNED_IN}
        return visible_to.get(self.visibility, Readers.MEMBERS)
