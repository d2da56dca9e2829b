import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.simulators.gitlab import GitLabSim, Scene
from worker.errors import SourceError
from worker.gitlab.read.job_logs import JobLogs
from worker.gitlab.read.redactions import Redactions
from worker.gitlab.read.session_reader import Reader


def logs_of(
    reader: Reader,
    redact: Callable[[bytes], bytes] = bytes,
    max_log: int = 1 << 24,
    max_kept: int = 1 << 26,
) -> JobLogs:
    return JobLogs(reader.client, reader.subject, Redactions(redact), max_log, max_kept)


def traces(sim: GitLabSim) -> int:
    return sum(seen.path.endswith("/trace") for seen in sim.requests)


def test_a_log_is_clean_and_its_lines_can_be_proven(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    logs = logs_of(reader)
    document = logs.read_log(scene.job.id).make_document()
    lines = document.data.decode().splitlines()
    assert lines[2] == "$ pytest -q"
    assert "\x1b" not in document.data.decode()
    assert document.gaps == ""
    assert list(logs.read_log(scene.job.id).lines) == lines
    assert logs.link_line(scene.job.id, 3) == f"{scene.job.web_url}#L3"
    assert traces(sim) == 1


def test_a_line_that_the_jobs_page_leaves_out_has_no_link_and_is_not_counted(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"$ tool\n\x1b[31merror: E4\r\x1b[0m\nnext\n"
    logs = logs_of(reader)
    assert list(logs.read_log(scene.job.id).lines) == ["$ tool", "error: E4", "next"]
    links = [logs.link_line(scene.job.id, number) for number in (1, 2, 3)]
    page = scene.job.web_url
    assert links == [f"{page}#L1", page, f"{page}#L2"]


def test_the_line_proven_is_the_redacted_one_the_model_saw(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"password is hunter2\n"
    logs = logs_of(reader, lambda data: data.replace(b"hunter2", b"[redacted]"))
    assert logs.read_log(scene.job.id).make_document().data == b"password is [redacted]\n"
    assert logs.read_log(scene.job.id).lines[0] == "password is [redacted]"


def test_a_log_that_is_late_is_said_and_asked_for_again(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = None
    logs = logs_of(reader)
    first = logs.read_log(scene.job.id).make_document()
    assert first.data == b""
    assert first.gaps.startswith(f"GitLab has no log for job {scene.job.id} (failed)")
    scene.job.trace = b"here it is\n"
    assert logs.read_log(scene.job.id).make_document().data == b"here it is\n"


def test_the_log_of_a_running_job_is_not_kept(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    scene.job.status, scene.job.trace = "running", b"one\n"
    logs = logs_of(reader)
    assert "still running" in logs.read_log(scene.job.id).make_document().gaps
    scene.job.status, scene.job.trace = "failed", b"one\ntwo\n"
    assert logs.read_log(scene.job.id).make_document().data == b"one\ntwo\n"


def test_an_erased_log_is_an_error_that_says_so(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.erased = True
    logs = logs_of(reader)
    with pytest.raises(SourceError, match="was erased"):
        logs.read_log(scene.job.id).make_document()


def test_a_job_that_cannot_be_read_has_a_link_all_the_same(sim: GitLabSim, reader: Reader) -> None:
    logs = logs_of(reader)
    assert logs.link_line(4711, 1) == f"{sim.url}/team/service/-/jobs/4711"


def test_a_log_over_the_cap_keeps_both_ends_and_the_numbers_of_its_lines(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(400_000))
    log = logs_of(reader, max_log=2_400_000).read_log(scene.job.id)
    dropped = log.spool.dropped_lines
    assert len(log.lines) == 400_000
    assert 100_000 < len(dropped) < 300_000
    assert {log.lines[number - 1] for number in (dropped[0], dropped[-1])} == {""}
    for number in (1, dropped[0] - 1, dropped[-1] + 1, 400_000):
        assert log.lines[number - 1] == f"line {number - 1:06d}"
    document = log.make_document()
    assert document.gaps.startswith(f"lines {dropped[0]} to {dropped[-1]}, ")
    assert document.chunks is not None
    written = b"".join(document.chunks()).split(b"\n")
    assert written[-2] == b"line 399999"
    assert written.index(b"line 399999") == 399_999
    assert written[dropped[0] - 1].endswith(b"of this log are left out here]")


def test_a_part_of_a_log_keeps_the_numbers_of_its_lines_too(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(800_000))
    for cap in (1 << 24, 4_800_000):
        document = logs_of(reader, max_log=cap).read_log(scene.job.id).make_document()
        assert document.part is not None
        part = b"".join(document.part(3_500_000))
        lines = part.split(b"\n")
        assert (lines[0], lines[799_999], len(lines)) == (b"line 000000", b"line 799999", 800_001)
        assert len(part) < 4_500_000


def test_links_count_as_the_jobs_page_does_which_shows_only_the_end(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(100_000))
    logs = logs_of(reader)
    shown = 500 * 1024 // 12
    assert logs.link_line(scene.job.id, 5) == scene.job.web_url
    assert logs.link_line(scene.job.id, 100_000) == f"{scene.job.web_url}#L{shown}"


def test_links_into_a_log_that_was_cut_count_from_the_same_line(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = b"".join(b"line %06d\n" % number for number in range(100_000))
    logs = logs_of(reader, max_log=800_000)
    assert logs.read_log(scene.job.id).lines[-1] == "line 099999"
    assert logs.link_line(scene.job.id, 100_000) == f"{scene.job.web_url}#L{500 * 1024 // 12}"
    assert logs.link_line(scene.job.id, 1) == scene.job.web_url


def test_the_cache_is_bounded_and_drops_what_was_used_least(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    jobs = [
        sim.add_job(scene.pipeline, f"j{number}", status="failed", trace=b"x" * 400 + b"\n")
        for number in range(3)
    ]
    logs = logs_of(reader, max_kept=1000)
    for job in (jobs[0], jobs[1], jobs[0], jobs[2]):
        logs.read_log(job.id).make_document()
    assert traces(sim) == 3
    logs.read_log(jobs[0].id).make_document()
    assert traces(sim) == 3
    logs.read_log(jobs[1].id).make_document()
    assert traces(sim) == 4


def test_two_threads_that_want_the_same_log_read_it_once(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    logs = logs_of(reader)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: logs.read_log(scene.job.id).make_document().data, range(4)))
    assert len(set(found)) == 1
    assert traces(sim) == 1


def test_a_large_log_is_a_stream_with_a_preview_and_its_times(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    noise = b"".join(b"line %06d\n" % number for number in range(200_000))
    scene.job.trace = (
        b"section_start:1700000000:step_script\r\x1b[0K$ make\n"
        + noise
        + b"widget.c:7: error: no such widget\nsection_end:1700000042:step_script\r\x1b[0Kbye\n"
    )
    document = logs_of(reader).read_log(scene.job.id).make_document()
    assert document.chunks is not None
    assert document.preview is not None
    assert document.lines == 200_003
    assert "200002: widget.c:7: error: no such widget" in document.preview(500)
    (outline,) = document.side_files()
    told = json.loads(b"".join(outline.chunks()))
    assert outline.suffix == ".outline"
    assert told["sections"] == [
        {
            "name": "step_script",
            "first": 1,
            "last": 200_002,
            "start": 1700000000,
            "end": 1700000042,
        }
    ]


def with_green(sim: GitLabSim, scene: Scene, trace: bytes, name: str = "unit-tests") -> int:
    """A passed pipeline of the target branch, and its job."""
    green = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    green.ref = "main"
    return sim.add_job(green, name, trace=trace).id


def noisy(*more: str) -> bytes:
    lines = [f"error: known trouble {number:05d} of part {number % 7}" for number in range(400)]
    odd = [f"the {a}{b} are {b}{a} off" for a in "abcdefgh" for b in "ijklmnop"]
    return "\n".join([*lines, *more[:1], *odd, *more[1:], ""]).encode()


def test_the_preview_of_a_failed_job_prefers_what_its_last_green_run_did_not_say(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = noisy("the totals are off by 2", *["error: known trouble 1 of part 1"] * 300)
    assert "the totals are off by 2" not in logs_of(reader).read_log(scene.job.id).preview(1000)
    green = with_green(sim, scene, noisy())
    log = logs_of(reader).read_log(scene.job.id)
    assert "401: the totals are off by 2" in log.preview(1000)
    beside = {each.suffix: each for each in log.make_document().side_files()}
    assert b"".join(beside[".green"].chunks()) == noisy()
    said = beside[".green"].description
    assert re.search(rf"job {green}, which passed on main at \w+, on 2026-11-\d\d:", said)


def test_a_job_that_only_merge_requests_have_is_compared_with_their_earlier_pipeline(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = noisy("the totals are off by 2")
    earlier = sim.run_pipeline(scene.mr, status="success")
    passed = sim.add_job(earlier, scene.job.name, trace=noisy())
    later = replace(reader.subject, pipeline_id=earlier.id + 1)
    logs = JobLogs(reader.client, later, Redactions(bytes))
    (beside,) = logs.read_log(scene.job.id).make_document().side_files()
    assert f"job {passed.id}, " in beside.description


def test_of_two_passes_the_newer_one_is_compared(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = noisy("the totals are off by 2")
    with_green(sim, scene, noisy())
    earlier = sim.run_pipeline(scene.mr, status="success")
    passed = sim.add_job(earlier, scene.job.name, trace=noisy())
    later = replace(reader.subject, pipeline_id=earlier.id + 1)
    log = JobLogs(reader.client, later, Redactions(bytes)).read_log(scene.job.id)
    assert log.find_passed_job_id() == passed.id


def test_an_older_pass_is_compared_rather_than_one_after_the_failure(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    before = with_green(sim, scene, noisy())
    pipeline = sim.run_pipeline(scene.mr)
    failed = sim.add_job(pipeline, scene.job.name, status="failed", trace=noisy("it is off by 2"))
    after = sim.run_pipeline(scene.mr, status="success")
    sim.add_job(after, scene.job.name, trace=noisy())
    later = replace(reader.subject, pipeline_id=after.id + 1)
    assert (
        JobLogs(reader.client, later, Redactions(bytes)).read_log(failed.id).find_passed_job_id()
        == before
    )


def test_looking_for_the_green_run_costs_few_requests_and_its_lists_are_shared(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.job.trace = noisy("first")
    other = sim.add_job(scene.pipeline, "lint", status="failed", trace=noisy("second"))
    with_green(sim, scene, noisy())
    green = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    green.ref = "main"
    for name in (scene.job.name, "lint"):
        sim.add_job(green, name, trace=noisy())
    logs = logs_of(reader)
    before = len(sim.requests)
    logs.read_log(scene.job.id).preview(500)
    first = len(sim.requests) - before
    logs.read_log(other.id).preview(500)
    logs.read_log(other.id).preview(900)
    assert (first, len(sim.requests) - before) == (8, 11)


def test_a_passed_job_and_a_short_log_are_not_compared(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    with_green(sim, scene, noisy())
    scene.job.trace = b"too short to leave anything out\n"
    before = len(sim.requests)
    logs_of(reader).read_log(scene.job.id).preview(500)
    assert len(sim.requests) - before == 2
    scene.job.status, scene.job.trace = "success", noisy()
    log = logs_of(reader).read_log(scene.job.id)
    log.preview(500)
    assert len(sim.requests) - before == 4
    assert [each.suffix for each in log.make_document().side_files()] == []
