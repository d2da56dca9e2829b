"""When each part of a job log was written, from section markers and the runner's timestamps."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

MAX_SECTIONS = 2_000
MAX_TIMES = 5_000
MAX_UNSHOWN = 20_000

_MAX_NAME = 80


@dataclass(slots=True)
class Section:
    """A section: lines `first` to `last` of the cleaned log, from `start` to `end` (epoch seconds).

    `last` and `end` are 0 if the section's end was not seen.
    """

    name: str
    first: int
    last: int = 0
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Timeline:
    """A log's sections and times, filled while it is cleaned.

    Bounded: if there are very many sections or times, only some are kept.
    """

    sections: list[Section] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    unshown: list[int] = field(default_factory=list)
    """The lines that the job's page leaves out."""
    step: int = 1
    """The least number of seconds between two of `times`."""

    _open: dict[str, Section] = field(default_factory=dict)

    def open_section(self, name: bytes, at: int, line: int) -> None:
        """Record that a section begins with this line."""
        if len(self.sections) < MAX_SECTIONS:
            section = Section(name.decode("ascii", "replace")[:_MAX_NAME], line, start=at)
            self.sections.append(section)
            self._open[section.name] = section

    def close_section(self, name: bytes, at: int, line: int) -> None:
        """Record that a section ended before this line."""
        section = self._open.pop(name.decode("ascii", "replace")[:_MAX_NAME], None)
        if section:
            section.last, section.end = max(section.first, line - 1), at

    def record_unshown(self, line: int) -> None:
        """Record that the job's page leaves out this line."""
        if len(self.unshown) < MAX_UNSHOWN:
            self.unshown.append(line)

    def wants_time(self, at: int) -> bool:
        """Whether this time is far enough from the last recorded one to be recorded."""
        return not self.times or at - self.times[-1][1] >= self.step

    def record_time(self, at: int, line: int) -> None:
        """Record when this line was written, unless a recorded time is too near."""
        if not self.wants_time(at):
            return
        self.times.append((line, at))
        if len(self.times) > MAX_TIMES:
            self.step *= 2
            kept, self.times = self.times, []
            for earlier, when in kept:
                self.record_time(when, earlier)

    @property
    def began(self) -> int:
        """The first recorded time, or the first section's, in epoch seconds; 0 if there is none."""
        first = [at for _, at in self.times[:1]] + [each.start for each in self.sections[:1]]
        return min(filter(None, first), default=0)

    @property
    def seconds(self) -> int:
        """The seconds between the first and the last recorded time, 0 if there are none."""
        return self.times[-1][1] - self.times[0][1] if self.times else 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the sandbox's `log outline` reads; empty if nothing is known."""
        if not self.sections and not self.times:
            return {}
        return {
            "sections": [asdict(section) for section in self.sections],
            "times": self.times,
        }


def parse_stamp(stamp: bytes) -> int:
    """Return a time such as `2024-05-24T12:01:02` in epoch seconds, 0 if it is not valid."""
    try:
        return int(datetime.fromisoformat(stamp.decode()).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0
