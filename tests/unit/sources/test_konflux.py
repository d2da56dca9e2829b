import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clusters import JSON, Cluster
from worker.conversation.context import Subject
from worker.errors import ArgumentError, ConfigError, SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.evidence import Evidence
from worker.gitlab.read.session_reader import Reader
from worker.sources import konflux
from worker.sources.konflux import Tenant, open_konflux
from worker.sources.table import bind_sources, join_rows, write_notes
from worker.tools.source import Document, DocumentKind, Source
from worker.verdict.finding import TaskStep

SHA = "a" * 40
SUBJECT = Subject("https://gitlab.example", 1, "Team/App", 7, 1, 9, SHA, "https://x")
PAC, TEST = konflux.PREFIXES
OURS = {f"{PAC}/sha": SHA, f"{PAC}/pull-request": "7", f"{PAC}/repository": "app"}
FAILED = {"type": "Succeeded", "status": "False", "reason": "Failed", "message": "1 of 9\nfailed"}
DONE = {"type": "Succeeded", "status": "True", "reason": "Completed"}
TASK = {"tekton.dev/pipelineRun": "build-1", "tekton.dev/pipelineTask": "clair-scan"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster("team-tenant", token="sa-token-1") as running:
        assert isinstance(running, Cluster)
        yield running
        assert running.unexpected_requests == []


@pytest.fixture
def archive() -> Iterator[Cluster]:
    with Cluster("team-tenant", token="sa-token-1") as running:
        assert isinstance(running, Cluster)
        yield running
        assert running.unexpected_requests == []


def sources(
    cluster: Cluster,
    archive: Cluster | None = None,
    repository: str = "app",
    subject: Subject = SUBJECT,
    token: str = "sa-token-1",
    reader: Reader | None = None,
    ui_url: str = "",
) -> dict[str, Source]:
    tenants = {"team/app": Tenant("team-tenant", repository)}
    rows = open_konflux(cluster.url, archive.url if archive else "", token, "", tenants, ui_url)
    return bind_sources(reader or open_reader(subject=subject), rows)


def open_reader(redact: Callable[[bytes], bytes] = bytes, subject: Subject = SUBJECT) -> Reader:
    return Reader.open(ReadClient("http://127.0.0.1:9", "t"), subject, redact)


def fetch(bound: dict[str, Source], name: str, **arguments: Any) -> Document:
    return bound[f"konflux_{name}"].fetch(json.dumps(arguments))


def told(document: Document) -> list[dict[str, Any]]:
    (found,) = json.loads(document.data).values()
    return list(found)


def test_it_is_off_unless_it_is_configured_and_for_other_projects(cluster: Cluster) -> None:
    tenants = {"team/app": Tenant("team-tenant")}
    assert open_konflux("", "", "", "", tenants) == ()
    assert open_konflux(cluster.url, "", "", "", {}) == ()
    other = Subject("https://gitlab.example", 2, "team/other", 7, 2, 9, SHA, "https://x")
    assert sources(cluster, subject=other) == {}
    assert list(sources(cluster)) == [
        "konflux_list_pipelineruns", "konflux_list_taskruns", "konflux_get_pod_log"
    ]  # fmt: skip


def test_its_note_says_how_a_log_is_quoted(cluster: Cluster) -> None:
    rows = open_konflux(cluster.url, "", "", "", {"a/b": Tenant("n")})
    text = write_notes([each.name for each in rows], join_rows(rows))
    assert text.splitlines() == [
        "## Data sources",
        "- `konflux_get_pod_log`: quote a line of it as `konflux TASKRUN STEP line 12: text` "
        "(`grep -n`).",
    ]


def test_a_ca_file_that_is_not_there_is_the_operators_mistake(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"Konflux: the CA file /no/ca\.pem cannot be read"):
        open_konflux(cluster.url, "", "", "/no/ca.pem", {"a/b": Tenant("n")})


def test_only_runs_of_the_merge_request_are_listed(cluster: Cluster) -> None:
    cluster.add("pipelineruns", "build-1", OURS, conditions=[FAILED], startTime="t0")
    older = OURS | {f"{PAC}/sha": "b" * 40}
    cluster.add("pipelineruns", "build-0", older, conditions=[DONE])
    tested = {f"{TEST}/sha": SHA, "test.appstudio.openshift.io/scenario": "e2e"}
    cluster.add("pipelineruns", "e2e-1", tested)
    cluster.add("pipelineruns", "theirs", {f"{PAC}/sha": "c" * 40, f"{PAC}/pull-request": "7"})
    document = fetch(sources(cluster), "list_pipelineruns")
    assert told(document) == [
        {"name": "e2e-1", "status": "running", "sha": SHA, "scenario": "e2e"},
        {"name": "build-0", "status": "succeeded", "reason": "Completed", "sha": "b" * 40},
        {
            "name": "build-1",
            "status": "failed",
            "reason": "Failed",
            "message": "1 of 9 failed",
            "started_at": "t0",
            "sha": SHA,
        },
    ]
    assert document.gaps == ""
    by_commit = fetch(sources(cluster, repository=""), "list_pipelineruns")
    assert [run["name"] for run in told(by_commit)] == ["e2e-1", "build-1"]


def test_no_runs_are_said_to_be_none(cluster: Cluster) -> None:
    document = fetch(sources(cluster), "list_pipelineruns")
    assert (told(document), document.gaps) == (
        [],
        "runs: the cluster has none for this merge request (any more)",
    )


def test_the_tasks_of_a_run_show_failed_ones_first(cluster: Cluster) -> None:
    cluster.add("pipelineruns", "build-1", OURS)
    cluster.add("taskruns", "ok", OURS | TASK, conditions=[DONE])
    steps = [
        {"name": "fetch", "container": "step-fetch", "terminated": {"exitCode": 0}},
        {
            "name": "scan",
            "container": "step-scan",
            "terminated": {"exitCode": 3, "reason": "Error"},
        },
    ]
    cluster.add("taskruns", "scan", OURS | TASK, conditions=[FAILED], steps=steps, podName="p-1")
    found = told(fetch(sources(cluster), "list_taskruns", pipeline_run="build-1"))
    assert [run["name"] for run in found] == ["scan", "ok"]
    assert found[0]["task"] == "clair-scan"
    assert found[0]["steps"] == [
        {"name": "fetch", "exit_code": 0},
        {"name": "scan", "exit_code": 3, "reason": "Error"},
    ]


@pytest.mark.parametrize("labels", [{}, {f"{PAC}/pull-request": "7"}, {f"{PAC}/sha": "c" * 40}])
def test_a_run_of_somebody_else_cannot_be_named(cluster: Cluster, labels: dict[str, str]) -> None:
    cluster.add("pipelineruns", "theirs", labels)
    cluster.add("taskruns", "their-task", labels, podName="p-9")
    cluster.logs["p-9", "step-x"] = b"secret\n"
    with pytest.raises(SourceError, match="pipelinerun theirs is not of this merge request"):
        fetch(sources(cluster), "list_taskruns", pipeline_run="theirs")
    with pytest.raises(SourceError, match="taskrun their-task is not of this merge request"):
        fetch(sources(cluster), "get_pod_log", task_run="their-task")


@pytest.mark.parametrize("name", ["../pods", "a/b", "", "A", "x" * 300, "a?limit=1"])
def test_a_name_cannot_reach_another_path(cluster: Cluster, name: str) -> None:
    for source, argument in (("list_taskruns", "pipeline_run"), ("get_pod_log", "task_run")):
        with pytest.raises(ArgumentError, match=argument):
            fetch(sources(cluster), source, **{argument: name})
    assert cluster.asked == []


def with_pod(where: Cluster) -> None:
    steps = [
        {"name": "fetch", "container": "step-fetch", "terminated": {"exitCode": 0}},
        {"name": "scan", "container": "step-scan", "terminated": {"exitCode": 3}},
    ]
    where.add("taskruns", "scan", OURS | TASK, conditions=[FAILED], steps=steps, podName="p-1")
    where.logs["p-1", "step-fetch"] = b"\x1b[32mfetched\x1b[0m\n"
    where.logs["p-1", "step-scan"] = b"timeout\n"


def test_the_log_of_a_step_is_that_of_the_one_that_failed_or_is_named(cluster: Cluster) -> None:
    with_pod(cluster)
    document = fetch(sources(cluster), "get_pod_log", task_run="scan")
    assert (document.kind, document.gaps, document.final) == (DocumentKind.LOG, "", True)
    assert document.data == b"timeout\n"
    one = fetch(sources(cluster), "get_pod_log", task_run="scan", step="fetch")
    assert one.data == b"fetched\n"
    with pytest.raises(
        ArgumentError, match=r"'push' is not one of the steps: fetch \(exit code 0\)"
    ):
        fetch(sources(cluster), "get_pod_log", task_run="scan", step="push")


def test_a_step_has_to_be_named_where_several_could_be_meant(cluster: Cluster) -> None:
    steps = [
        {"name": "fetch", "container": "step-fetch", "terminated": {"exitCode": 0}},
        {"name": "scan", "container": "step-scan"},
    ]
    cluster.add("taskruns", "scan", OURS | TASK, steps=steps, podName="p-1")
    cluster.logs["p-1", "step-scan"] = b"so far\n"
    with pytest.raises(ArgumentError, match=r"name one of the steps: fetch \(exit code 0\), scan$"):
        fetch(sources(cluster), "get_pod_log", task_run="scan")
    assert not fetch(sources(cluster), "get_pod_log", task_run="scan", step="scan").final


def test_a_step_whose_log_is_gone_is_said_to_be(cluster: Cluster) -> None:
    with_pod(cluster)
    del cluster.logs["p-1", "step-scan"]
    with pytest.raises(SourceError, match=r"the log of step-scan: Konflux does not have it"):
        fetch(sources(cluster), "get_pod_log", task_run="scan")


def test_what_was_read_of_a_pod_is_quoted_after_it_is_gone(cluster: Cluster) -> None:
    with_pod(cluster)
    reader = open_reader()
    bound = sources(cluster, reader=reader, ui_url="https://ui.example/")
    place, found = TaskStep("scan", "scan"), CapturedDocuments(reader, bound)
    with pytest.raises(SourceError, match="it was not fetched in this session"):
        found.read_lines(place)
    fetch(bound, "get_pod_log", task_run="scan")
    cluster.objects["taskruns"].clear()
    cluster.logs.clear()
    assert found.read_lines(place) == ["timeout"]
    page = "https://ui.example/ns/team-tenant/pipelinerun/build-1/logs/clair-scan"
    assert found.link_lines(place, 1, 1) == page
    with pytest.raises(SourceError, match="not fetched"):
        found.read_lines(TaskStep("scan", "fetch"))


def test_secrets_are_gone_from_what_is_kept(cluster: Cluster) -> None:
    with_pod(cluster)
    written: list[bytes] = []
    reader = open_reader(lambda data: data.replace(b"timeout", b"***"))
    reader.evidence.attach(lambda: None, written.append)
    fetch(sources(cluster, reader=reader), "get_pod_log", task_run="scan")
    again = Evidence()
    again.attach(lambda: written[-1], lambda record: None)
    assert again.read_lines(TaskStep("scan", "scan")) == ["***"]


@pytest.mark.slow
def test_a_large_log_keeps_both_ends(cluster: Cluster) -> None:
    with_pod(cluster)
    size = konflux.MAX_LOG + 1_000_000
    cluster.logs["p-1", "step-scan"] = b"first\n" + b"x" * 99 + b"\n" + b"y\n" * (size // 2)
    document = fetch(sources(cluster), "get_pod_log", task_run="scan", step="scan")
    assert b"first" in bytes(document.data)
    assert re.match(r"\d+ bytes of the log of step-scan, cut from its middle", document.gaps)


def test_a_task_that_never_started_says_why(cluster: Cluster) -> None:
    cluster.add("taskruns", "stuck", OURS, conditions=[FAILED | {"message": "quota exceeded"}])
    with pytest.raises(SourceError, match="has no pod, it never started: quota exceeded"):
        fetch(sources(cluster), "get_pod_log", task_run="stuck")


def test_the_archive_gives_what_the_cluster_has_deleted(cluster: Cluster, archive: Cluster) -> None:
    archive.add("pipelineruns", "build-0", OURS, conditions=[FAILED])
    archive.add("pipelineruns", "build-1", OURS, conditions=[FAILED])
    cluster.add("pipelineruns", "build-1", OURS, conditions=[DONE])
    with_pod(archive)
    bound = sources(cluster, archive)
    runs = {run["name"]: run["status"] for run in told(fetch(bound, "list_pipelineruns"))}
    assert runs == {"build-0": "failed", "build-1": "succeeded"}
    assert b"timeout" in bytes(fetch(bound, "get_pod_log", task_run="scan").data)


def test_an_archive_that_is_down_is_missing_not_fatal(cluster: Cluster, archive: Cluster) -> None:
    cluster.add("pipelineruns", "build-1", OURS)
    archive.faults["/"] = (503, b"", {})
    document = fetch(sources(cluster, archive), "list_pipelineruns")
    assert [run["name"] for run in told(document)] == ["build-1"]
    assert "the pipelineruns: the Konflux archive answered 503" in document.gaps


FAULTS = [
    ((401, b"", {}), False, r"Konflux refuses the token; is \$KONFLUX_TOKEN right\?"),
    ((403, b"", {}), False, "the token may not read this from Konflux"),
    ((404, b"", {}), False, "Konflux does not have it"),
    ((410, b"", {}), False, "Konflux has deleted it"),
    ((429, b"", {}), True, "rate limit of Konflux"),
    ((500, b"", {}), True, "Konflux answered 500"),
    ((302, b"", {"Location": "http://127.0.0.1:9/"}), False, "redirects elsewhere, which is ref"),
    ((200, b"<html>", {}), False, "the answer of Konflux is not as expected"),
    ((200, b'{"items": 3}', JSON), False, "the answer of Konflux is not as expected"),
    ((200, b"[" * 100_000, JSON), False, "the answer of Konflux is not as expected"),
    (
        (200, b"{}", {"Content-Length": "100"}),
        True,
        "Konflux: no answer from http://.* its answer broke off",
    ),
]


@pytest.mark.parametrize(("fault", "transient", "said"), FAULTS)
def test_every_refusal_is_a_source_error_that_says_why(
    cluster: Cluster, fault: Any, transient: bool, said: str
) -> None:
    cluster.faults["/pipelineruns"] = fault
    with pytest.raises(SourceError, match=said) as caught:
        fetch(sources(cluster), "list_pipelineruns")
    assert caught.value.transient is transient
    assert "sa-token-1" not in str(caught.value)


def test_a_wrong_token_is_refused_by_the_cluster(cluster: Cluster) -> None:
    with pytest.raises(SourceError, match="refuses the token"):
        fetch(sources(cluster, token="other"), "list_pipelineruns")


def test_an_answer_over_the_cap_is_refused(cluster: Cluster) -> None:
    cluster.faults["/pipelineruns"] = (200, b" " * (17 * 1024 * 1024), JSON)
    with pytest.raises(SourceError, match="Konflux sends over 16777216 bytes"):
        fetch(sources(cluster), "list_pipelineruns")


def test_runs_past_the_limit_are_said_to_be_missing(cluster: Cluster) -> None:
    for number in range(konflux.LIMIT + 1):
        cluster.add("pipelineruns", f"build-{number}", OURS)
    document = fetch(sources(cluster, repository=""), "list_pipelineruns")
    assert len(told(document)) == konflux.LIMIT
    assert document.gaps == f"pipelineruns after the first {konflux.LIMIT}"
