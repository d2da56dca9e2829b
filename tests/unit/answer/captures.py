"""Captured documents held in a dict."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.errors import SourceError
from worker.verdict.finding import Place, name_place


@dataclass
class Held:
    """Lines by place; a place that is not there cannot be read. Satisfies ports.Captures."""

    texts: dict[Place, str] = field(default_factory=dict)
    read: list[Place] = field(default_factory=list)

    def read_lines(self, place: Place) -> Sequence[str]:
        self.read.append(place)
        if place not in self.texts:
            raise SourceError("404 Not Found")
        return self.texts[place].split("\n")

    def link_lines(self, place: Place, first: int, last: int) -> str:
        name = name_place(place).replace(" ", "/")
        return f"https://gitlab.example.com/{name}#L{first}" + (f"-{last}" if last > first else "")
