"""Files and diffs are shown where the logs of the failing jobs point."""

import json

import pytest

from tests.fakes import MemorySandbox
from tests.simulators.gitlab import DiffFile, GitLabSim, Scene
from tests.unit.conftest import fetch, subject_of
from worker.errors import ArgumentError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.merge_request import SHOWN_WHOLE
from worker.gitlab.read.session_reader import Reader
from worker.sources.table import bind_sources
from worker.tools.base import ToolContext
from worker.tools.documents import save_document, show_document
from worker.tools.source import Document

SOURCE = [f"# licence {n}" for n in range(1, 31)] + [f"value_{n} = {n}" for n in range(31, 401)]
LOG = b"""\
Executing "step_script" stage of the job script
$ pytest -q
app/sum.py:250: KeyError: 'tide'
FAILED tests/test_sum.py::test_sum - KeyError: 'tide'
ERROR: Job failed: exit code 1
"""
KEY = "-----BEGIN PRIVATE KEY-----\nMIIBVAIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"


@pytest.fixture
def failing(sim: GitLabSim, scene: Scene, client: ReadClient) -> Reader:
    sim.push(scene.mr, {"app/sum.py": "\n".join(SOURCE).encode() + b"\n"})
    pipeline = sim.run_pipeline(scene.mr)
    sim.add_job(pipeline, "unit-tests", status="failed", trace=LOG)
    return Reader.open(client, subject_of(sim, scene.mr, pipeline), bytes)


def read_log(reader: Reader, sim: GitLabSim) -> None:
    job = max(sim.jobs)
    bind_sources(reader)["gitlab_get_job_log"].fetch(json.dumps({"job_id": job}))


def shown(document: Document, limit: int = 4096) -> str:
    assert document.preview is not None
    return document.preview(limit)


def test_a_file_is_shown_around_the_line_that_the_log_names(
    sim: GitLabSim, failing: Reader
) -> None:
    document = fetch(failing, "gitlab_get_file", path="app/sum.py")
    assert shown(document).startswith("[… 30 lines not shown …]\n31: value_31")
    read_log(failing, sim)
    assert "250: value_250 = 250" in shown(document)
    assert "\n31: " not in shown(document)


@pytest.mark.parametrize(("preview_bytes", "size"), [(4096, 5100), (1024, 1250)])
def test_a_file_that_is_shown_whole_has_its_lines_numbered_and_is_saved_without(
    sim: GitLabSim, scene: Scene, failing: Reader, preview_bytes: int, size: int
) -> None:
    lines = ["first", f"    {'x' * 600}", "", *["return y"] * ((size - 612) // 9)]
    text = "\n".join([*lines, ""])
    sim.push(scene.mr, {"app/short.py": text.encode()})
    sandbox = MemorySandbox()
    context = ToolContext(sandbox, {}, 9.0, str, preview_bytes, 2 * preview_bytes)
    document = fetch(failing, "gitlab_get_file", path="app/short.py", ref=scene.mr.sha)
    told = show_document(document, context, 1).content["result"]
    assert told == "".join(f"{number}: {line}\n" for number, line in enumerate(lines, 1))
    save_document(document, context, "/tmp/data/short.py", preview_bytes)
    assert sandbox.files == {"/tmp/data/short.py": text.encode()}


def test_a_saved_file_costs_ten_lines(sim: GitLabSim, failing: Reader) -> None:
    read_log(failing, sim)
    document = fetch(failing, "gitlab_get_file", path="app/sum.py")
    assert document.brief is not None
    lines = document.brief(4096).split("\n")
    assert sum(not line.startswith("[…") for line in lines) == 10
    assert "250: value_250 = 250" in lines


def test_a_range_of_a_file_has_its_lines_with_their_numbers(failing: Reader) -> None:
    document = fetch(failing, "gitlab_get_file", path="app/sum.py", first_line=249, last_line=251)
    assert document.data.decode().split("\n") == [
        "[app/sum.py, 400 lines]", *(f"{n}: value_{n} = {n}" for n in (249, 250, 251)), "",
    ]  # fmt: skip
    to_the_end = fetch(failing, "gitlab_get_file", path="app/sum.py", first_line=399)
    assert to_the_end.data.decode().split("\n")[1:-1] == [
        "399: value_399 = 399",
        "400: value_400 = 400",
    ]
    from_the_start = fetch(failing, "gitlab_get_file", path="app/sum.py", last_line=1)
    assert from_the_start.data.decode().split("\n")[1:-1] == ["1: # licence 1"]


@pytest.mark.parametrize("wanted", [{"first_line": 401}, {"first_line": 9, "last_line": 8}])
def test_a_range_that_is_not_there_is_said(failing: Reader, wanted: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=r"app/sum\.py has 400 lines"):
        fetch(failing, "gitlab_get_file", path="app/sum.py", **wanted)


@pytest.mark.attack("redaction")
def test_a_secret_of_several_lines_is_not_found_in_a_part_of_it(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    sim.push(scene.mr, {"key.pem": f"a\n{KEY}\nb\n".encode()})
    pipeline = sim.run_pipeline(scene.mr)

    def redact(data: bytes) -> bytes:
        return data.replace(KEY.encode(), b"[redacted]\n\n\n")

    reader = Reader.open(client, subject_of(sim, scene.mr, pipeline), redact)
    document = fetch(reader, "gitlab_get_file", path="key.pem", first_line=3, last_line=4)
    assert document.data == b"[key.pem, 6 lines]\n3: \n4: \n"


def test_a_diff_is_saved_plain_and_shown_with_numbers(failing: Reader) -> None:
    document = fetch(failing, "gitlab_get_mr_diff")
    assert "\n+    return 4\n" in document.data.decode()
    assert "\n    2 +    return 4\n" in shown(document)
    assert "\n      -    return sum(xs)\n" in shown(document)


def test_of_a_long_diff_the_hunk_that_the_log_names_is_shown(
    sim: GitLabSim, scene: Scene, failing: Reader
) -> None:
    noise = "".join(f"@@ -{n},1 +{n},1 @@\n-a\n+{'x' * 400}\n" for n in range(1, 60))
    cause = "@@ -250,1 +250,1 @@\n-value = 1\n+value = None\n"
    scene.mr.diffs = [DiffFile("app/big.py", noise), DiffFile("app/sum.py", noise + cause)]
    document = fetch(failing, "gitlab_get_mr_diff")
    assert len(document.data) > document.shown_whole == SHOWN_WHOLE
    read_log(failing, sim)
    assert "  250 +value = None" in shown(document, 1024)
    assert len(shown(document).encode()) <= 4096


def test_a_comparison_is_shown_like_a_diff(sim: GitLabSim, failing: Reader) -> None:
    document = fetch(failing, "gitlab_compare", old="main")
    assert document.shown_whole == SHOWN_WHOLE
    assert "\n    1 +# licence 1\n" in shown(document, 16_384)
