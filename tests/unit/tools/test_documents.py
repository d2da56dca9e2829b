"""Documents of any size on their way into the sandbox."""

from collections.abc import Iterable, Iterator

import pytest

from sandbox.base import SandboxLimit
from tests.fakes import MemorySandbox
from worker.errors import ArgumentError
from worker.gitlab.read.redactions import Redactions
from worker.safety.redacted_values import Redacted
from worker.tools import documents
from worker.tools.base import ToolContext
from worker.tools.source import Document, DocumentKind, SideFile

CLEAN = Redactions(bytes)
PATH = "/tmp/data/job.log"


class SmallSandbox(MemorySandbox):
    """Takes files of at most so many bytes."""

    room = 1 << 30

    def put(self, path: str, content: Iterable[bytes]) -> int:
        """Raises SandboxLimit for a larger one."""
        data = b"".join(content)
        if len(data) > self.room:
            raise SandboxLimit("no room left")
        return super().put(path, [data])


def bench(room: int) -> tuple[ToolContext, SmallSandbox]:
    sandbox = SmallSandbox()
    sandbox.room = room
    return ToolContext(sandbox, {}, 1.0, str), sandbox


def log(*beside: SideFile) -> Document:
    """A log of 30 MB that can be cut."""

    def chunks(most: int | None = None) -> Iterator[Redacted]:
        yield CLEAN(b"x" * min(most or 30 << 20, 30 << 20))

    return Document(
        CLEAN(b"a log"),
        DocumentKind.LOG,
        chunks=chunks,
        lines=7,
        preview=lambda limit: f"at most {limit}",
        side_files=lambda: beside,
        part=chunks,
    )


def test_a_streamed_log_comes_with_its_preview_its_lines_and_what_goes_beside_it() -> None:
    tools, sandbox = bench(1 << 30)
    green = SideFile(".green", lambda: iter([CLEAN(b"passed\n")]), "the log of job 7")
    made = documents.save_document(log(green), tools, PATH, 900)
    assert made.content == {
        "saved_to": PATH,
        "bytes": 30 << 20,
        "lines": 7,
        "preview": "at most 900",
        "also_saved": {f"{PATH}.green": "the log of job 7"},
    }
    assert sandbox.files[f"{PATH}.green"] == b"passed\n"


def test_a_log_that_does_not_fit_is_cut_in_its_middle_and_says_so() -> None:
    tools, sandbox = bench(20 << 20)
    made = documents.save_document(log(), tools, PATH, 900)
    assert (made.content["bytes"], len(sandbox.files[PATH])) == (16 << 20, 16 << 20)
    reason = "lines from its middle are left empty in the file: no room left"
    assert made.content["cut"] == reason


def test_a_log_of_which_no_part_fits_is_an_error_for_the_model() -> None:
    tools, _ = bench(10)
    with pytest.raises(ArgumentError, match="nor a part of it: no room left"):
        documents.save_document(log(), tools, PATH, 900)


def test_what_does_not_fit_beside_it_is_left_out() -> None:
    tools, sandbox = bench(30 << 20)
    green = SideFile(".green", lambda: iter([CLEAN(b"x" * (31 << 20))]), "the log of job 7")
    made = documents.save_document(log(green), tools, PATH, 900)
    assert "also_saved" not in made.content
    assert list(sandbox.files) == [PATH]
