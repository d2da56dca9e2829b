"""Evidence comes through the session's own sources: same bytes, same project, with links."""

import time
from dataclasses import replace
from typing import Any

import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene
from tests.unit.conftest import subject_of, zipped
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.session_reader import Reader
from worker.safety.neutralise import is_plain_url
from worker.sources.table import bind_sources
from worker.verdict.finding import JobArtifact, JobLog, Place, RepoFile, ReportedTest


def captured(reader: Reader, **options: Any) -> CapturedDocuments:
    return CapturedDocuments(reader, bind_sources(reader), **options)


def reported(scene: Scene) -> None:
    scene.pipeline.test_suites = [
        {
            "name": "unit-tests",
            "total_count": 1,
            "failed_count": 1,
            "test_cases": [
                {
                    "status": "failed",
                    "name": "test_sum",
                    "classname": "tests.test_sum",
                    "system_output": 'assert 3 == 4\n  E "quoted"',
                    "stack_trace": "at line 3",
                }
            ],
        }
    ]


def test_a_log_is_read_as_the_model_saw_it(reader: Reader, scene: Scene) -> None:
    place = JobLog(scene.job.id)
    lines = captured(reader).read_lines(place)
    assert lines[3] == "E   AssertionError: expected 3, got 4"
    assert captured(reader).link_lines(place, 4, 4) == f"{scene.job.web_url}#L4"


def test_a_file_is_read_at_the_pipelines_commit_and_at_a_branch(
    reader: Reader, scene: Scene
) -> None:
    found, page = captured(reader), f"{scene.project.web_url}/-/blob"
    assert found.read_lines(RepoFile("app/sum.py")) == ["def total(xs):", "    return 4"]
    assert found.read_lines(RepoFile("app/sum.py", "main"))[1] == "    return sum(xs)"
    sha = reader.subject.sha
    assert found.link_lines(RepoFile("app/sum.py"), 2, 2) == f"{page}/{sha}/app/sum.py#L2"
    newest = scene.project.refs["main"]
    assert found.link_lines(RepoFile("a b.py", "main"), 1, 3) == f"{page}/{newest}/a%20b.py#L1-3"


def test_an_artifact_and_a_reported_test_are_read(reader: Reader, scene: Scene) -> None:
    scene.job.archive = zipped({"out/report.txt": b"1 failed\r\n2 passed\n"})
    reported(scene)
    found, artifact = captured(reader), JobArtifact(scene.job.id, "out/report.txt")
    assert found.read_lines(artifact) == ["1 failed", "2 passed"]
    assert found.link_lines(artifact, 1, 1) == f"{scene.job.web_url}/artifacts/file/out/report.txt"
    for name in ("test_sum", "tests.test_sum.test_sum", "unit-tests tests.test_sum::test_sum"):
        lines = found.read_lines(ReportedTest(name))
        assert lines == ["assert 3 == 4", '  E "quoted"', "at line 3"]
    page = f"{scene.project.web_url}/-/pipelines/{scene.pipeline.id}/test_report"
    assert found.link_lines(ReportedTest("test_sum"), 0, 0) == page


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (JobLog(4711), "job 4711"),
        (RepoFile("app/none.py"), "app/none.py"),
        (RepoFile("../../../etc/passwd"), "not the plain path"),
        (RepoFile("app/sum.py", "no-such-branch"), "no-such-branch"),
        (JobArtifact(4711, "x"), "job 4711"),
        (ReportedTest("test_none"), "no job of this pipeline has uploaded"),
    ],
)
def test_what_cannot_be_read_says_why(reader: Reader, place: Place, reason: str) -> None:
    with pytest.raises((SourceError, ArgumentError), match=reason):
        captured(reader).read_lines(place)


def test_nothing_of_another_project_is_read(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    other = sim.add_project("team/secret", {"app/secret.py": b"the key is in here\n"})
    sim.add_member(other, scene.bot, Access.REPORTER)
    for path in ("app/secret.py", f"{other.id}/app/secret.py"):
        with pytest.raises(ArgumentError, match="there is no"):
            captured(reader).read_lines(RepoFile(path))


@pytest.mark.slow
def test_lines_after_a_cut_have_no_numbers_and_binary_files_no_lines(
    reader: Reader, scene: Scene
) -> None:
    big = b"".join(b"line %07d\n" % number for number in range(1_500_000))
    scene.job.archive = zipped({"big.txt": big, "blob": b"\x7fELF\0\0"})
    lines = captured(reader).read_lines(JobArtifact(scene.job.id, "big.txt"))
    assert lines[1000] == "line 0001000"
    assert len(lines) < 1_000_000
    with pytest.raises(SourceError, match="binary"):
        captured(reader).read_lines(JobArtifact(scene.job.id, "blob"))


def test_secrets_are_gone_before_a_quote_is_compared(reader: Reader) -> None:
    hidden = Reader.open(reader.client, reader.subject, lambda data: data.replace(b"sum", b"***"))
    assert captured(hidden).read_lines(RepoFile("app/sum.py", "main"))[1] == "    return ***(xs)"


def test_after_the_time_for_it_nothing_is_fetched(reader: Reader, sim: GitLabSim) -> None:
    before = len(sim.requests)
    late = captured(reader, seconds=-1.0)
    with pytest.raises(SourceError, match="time"):
        late.read_lines(RepoFile("app/sum.py"))
    assert len(sim.requests) == before


def test_a_fork_is_read_and_linked_in_the_target_project(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    fork = sim.add_project("mara/service", {"app/sum.py": b"x\n"}, public=True)
    sim.add_member(fork, scene.bot, Access.REPORTER)
    subject = subject_of(sim, scene.mr, scene.pipeline)
    subject = replace(subject, pipeline_project_id=fork.id, sha=fork.refs["main"])
    found = captured(Reader.open(client, subject, bytes))
    assert found.read_lines(RepoFile("app/sum.py")) == ["x"]
    page = f"{scene.project.web_url}/-/blob/{fork.refs['main']}"
    assert found.link_lines(RepoFile("app/sum.py"), 1, 1) == f"{page}/app/sum.py#L1"
    sim.commit(fork, "mine", {"app/sum.py": b"y\n"})
    mine = RepoFile("app/sum.py", "mine")
    assert found.read_lines(mine) == ["y"]
    assert found.link_lines(mine, 1, 1).startswith(f"{fork.web_url}/-/blob/{fork.refs['mine']}/")
    theirs = RepoFile("app/sum.py", "main")
    assert found.read_lines(theirs) != ["x"]
    assert found.link_lines(theirs, 1, 1).startswith(f"{scene.project.web_url}/-/blob/")
    report = f"{fork.web_url}/-/pipelines/{scene.pipeline.id}/test_report"
    assert found.link_lines(ReportedTest("t"), 0, 0) == report


def test_links_are_safe_in_markdown_or_not_made(reader: Reader) -> None:
    found = captured(reader)
    assert is_plain_url(found.link_lines(RepoFile("a](evil) b.py"), 1, 1))
    with pytest.raises(SourceError, match="no branch"):
        found.link_lines(RepoFile("a.py", "../../x"), 1, 1)


def test_proving_again_asks_gitlab_nothing(reader: Reader, sim: GitLabSim) -> None:
    sources, began = bind_sources(reader), time.monotonic()
    CapturedDocuments(reader, sources).read_lines(RepoFile("app/sum.py"))
    before = len(sim.requests)
    CapturedDocuments(reader, sources).read_lines(RepoFile("app/sum.py"))
    assert len(sim.requests) == before
    assert time.monotonic() - began < 30
