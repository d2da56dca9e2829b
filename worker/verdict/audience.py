"""Who may open a project's job logs, and who reads the notes on its merge requests. Pure."""

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How many people something is open to, from the most to the fewest."""

    ANYONE = 0
    SIGNED_IN = 1
    MEMBERS = 2


@dataclass(frozen=True, slots=True)
class Readers:
    """A group of people. `project_id` is the project whose members they are, of use for that level
    alone: the members of two projects are different people."""

    level: Level
    project_id: int

    def include(self, others: "Readers") -> bool:
        """Whether everybody of `others` is one of them. Members of another project never are."""
        if self.level is others.level is Level.MEMBERS:
            return self.project_id == others.project_id
        return self.level <= others.level


@dataclass(frozen=True, slots=True)
class Access:
    """A project's visibility and the access levels of three of its features, as GitLab gives them.

    `public_jobs` is its "project-based pipeline visibility". What is not known counts as private.
    """

    project_id: int
    visibility: str
    public_jobs: bool
    builds: str
    merge_requests: str
    repository: str

    @property
    def log_readers(self) -> Readers:
        """Who may open a job's log."""
        return self._find_readers(self.builds) if self.public_jobs else self.members

    @property
    def note_readers(self) -> Readers:
        """Who may read a merge request, and the notes on it that are not internal."""
        return self._find_readers(self.merge_requests)

    @property
    def code_readers(self) -> Readers:
        """Who may read the files of its repository."""
        return self._find_readers(self.repository)

    @property
    def members(self) -> Readers:
        """Its members, who alone read internal notes."""
        return Readers(Level.MEMBERS, self.project_id)

    def _find_readers(self, level: str) -> Readers:
        if "private" in (level, self.repository):
            return self.members
        visible_to = {"public": Level.ANYONE, "internal": Level.SIGNED_IN}
        return Readers(visible_to.get(self.visibility, Level.MEMBERS), self.project_id)
