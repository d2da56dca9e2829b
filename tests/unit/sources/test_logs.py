from collections.abc import Callable

import pytest

from worker.demo.gitlab import GitLabSim, Scene
from worker.errors import SourceError
from worker.sources.logs import JobLogs
from worker.sources.reader import Reader


def logs_of(
    reader: Reader,
    redact: Callable[[bytes], bytes] = bytes,
    max_log: int = 1 << 24,
    max_kept: int = 1 << 26,
) -> JobLogs:
    return JobLogs(reader.client, reader.subject, redact, max_log, max_kept)


def traces(sim: GitLabSim) -> int:
    return sum(seen.path.endswith("/trace") for seen in sim.requests)


def test_a_log_is_clean_and_its_lines_can_be_proven(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    logs = logs_of(reader)
    document = logs.document(scene.job.id)
    lines = document.data.decode().splitlines()
    assert lines[2] == "$ pytest -q"
    assert "\x1b" not in document.data.decode()
    assert document.missing == ""
    assert [logs.line(scene.job.id, number + 1) for number in range(len(lines))] == lines
    assert logs.url(scene.job.id, 3) == f"{scene.job.web_url}#L3"
    assert traces(sim) == 1


@pytest.mark.parametrize("number", [0, -1, 7, 10**9])
def test_a_line_that_the_log_does_not_have_is_not_proven(
    sim: GitLabSim, scene: Scene, reader: Reader, number: int
) -> None:
    assert logs_of(reader).line(scene.job.id, number) is None


def test_the_line_proven_is_the_redacted_one_the_model_saw(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"password is hunter2\n"
    logs = logs_of(reader, lambda data: data.replace(b"hunter2", b"[redacted]"))
    assert logs.document(scene.job.id).data == b"password is [redacted]\n"
    assert logs.line(scene.job.id, 1) == "password is [redacted]"


def test_a_log_that_is_late_is_said_and_asked_for_again(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = None
    logs = logs_of(reader)
    first = logs.document(scene.job.id)
    assert first.data == b""
    assert first.missing.startswith(f"GitLab has no log for job {scene.job.id} (failed)")
    scene.job.trace = b"here it is\n"
    assert logs.document(scene.job.id).data == b"here it is\n"


def test_the_log_of_a_running_job_is_not_kept(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    scene.job.status, scene.job.trace = "running", b"one\n"
    logs = logs_of(reader)
    assert "still running" in logs.document(scene.job.id).missing
    scene.job.status, scene.job.trace = "failed", b"one\ntwo\n"
    assert logs.document(scene.job.id).data == b"one\ntwo\n"


def test_an_erased_log_is_an_error_that_says_so(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.erased = True
    logs = logs_of(reader)
    with pytest.raises(SourceError, match="was erased"):
        logs.document(scene.job.id)
    assert logs.line(scene.job.id, 1) is None


def test_a_job_that_cannot_be_read_proves_nothing(sim: GitLabSim, reader: Reader) -> None:
    logs = logs_of(reader)
    assert logs.line(4711, 1) is None
    assert logs.url(4711, 1) == f"{sim.url}/team/service/-/jobs/4711"


def test_a_log_over_the_cap_keeps_both_ends_and_whole_lines(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(100_000))
    logs = logs_of(reader, max_log=40_000)
    document = logs.document(scene.job.id)
    lines = document.data.decode().splitlines()
    cut = next(at for at, line in enumerate(lines) if line.startswith("[... "))
    assert lines[0] == "line 000000"
    assert lines[-1] == "line 099999"
    assert lines[:cut] == [f"line {number:06d}" for number in range(cut)]
    tail = len(lines) - cut - 1
    assert lines[cut + 1 :] == [f"line {number:06d}" for number in range(100_000 - tail, 100_000)]
    assert document.missing == "1160000 of the log's 1200000 bytes, cut from its middle"
    assert logs.line(scene.job.id, len(lines)) == "line 099999"


def test_links_count_as_the_jobs_page_does_which_shows_only_the_end(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(100_000))
    logs = logs_of(reader)
    shown = 500 * 1024 // 12
    assert logs.url(scene.job.id, 5) == scene.job.web_url
    assert logs.url(scene.job.id, 100_000) == f"{scene.job.web_url}#L{shown}"


def test_links_into_a_log_that_was_cut_count_from_the_same_line(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(100_000))
    logs = logs_of(reader, max_log=800_000)
    last = logs.document(scene.job.id).data.count(b"\n")
    assert logs.line(scene.job.id, last) == "line 099999"
    assert logs.url(scene.job.id, last) == f"{scene.job.web_url}#L{500 * 1024 // 12}"
    assert logs.url(scene.job.id, 1) == scene.job.web_url


def test_the_cache_is_bounded_and_drops_what_was_used_least(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    jobs = [
        sim.add_job(scene.pipeline, f"j{number}", status="failed", trace=b"x" * 400 + b"\n")
        for number in range(3)
    ]
    logs = logs_of(reader, max_kept=1000)
    for job in (jobs[0], jobs[1], jobs[0], jobs[2]):
        logs.document(job.id)
    assert traces(sim) == 3
    logs.document(jobs[0].id)
    assert traces(sim) == 3
    logs.document(jobs[1].id)
    assert traces(sim) == 4
