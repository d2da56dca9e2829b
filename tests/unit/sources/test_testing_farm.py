import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clusters import TestingFarm
from worker.conversation.context import Subject
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.session_reader import Reader
from worker.sources import testing_farm, xunit
from worker.sources.table import bind_sources
from worker.sources.testing_farm import open_testing_farm
from worker.sources.xunit import Report
from worker.tools.source import Document, DocumentKind, Source
from worker.verdict.finding import RequestFile

ID = "0a1b2c3d-0000-4000-8000-000000000001"
SUBJECT = Subject("https://gitlab.example", 1, "team/app", 7, 1, 9, "a" * 40, "https://x")
XML = b"""<?xml version="1.0"?>
<testsuites><testsuite name="/plans/all" tests="3">
<testcase name="/ok"/>
<testcase name="/bad" classname="c"><failure message="expected 3">line 1
line\xe2\x80\x8b 2</failure></testcase>
<testcase name="/err"><error>boom</error><system-out>noise</system-out></testcase>
<testcase name="/skip"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def farm() -> Iterator[TestingFarm]:
    with TestingFarm(token="tf-token-1") as running:
        assert isinstance(running, TestingFarm)
        yield running
        assert running.unexpected_requests == []


@pytest.fixture
def store() -> Iterator[TestingFarm]:
    """The host that keeps results: it never sees the token."""
    with TestingFarm() as running:
        assert isinstance(running, TestingFarm)
        yield running
        assert running.unexpected_requests == []


@pytest.fixture
def bound(farm: TestingFarm, store: TestingFarm, reader: Reader) -> dict[str, Source]:
    request = {
        "id": ID,
        "state": "complete",
        "test": {"fmf": {"url": "https://gitlab.example/Team/app.git", "ref": "main"}},
        "result": {"overall": "failed", "summary": "one\nfailed", "xunit": None},
        "environments_requested": [{"arch": "x86_64", "os": {"compose": "Fedora-43"}}],
        "run": {"artifacts": f"{store.url}/results/{ID}"},
    }
    request["result"]["xunit_url"] = f"{store.url}/results/{ID}/results.xml"  # type: ignore[index]
    farm.requests[ID] = request
    store.files[f"/results/{ID}/results.xml"] = XML
    repositories = {"team/app": ["https://gitlab.example/team/*"]}
    rows = open_testing_farm(farm.url, f"{store.url}/results", "tf-token-1", repositories)
    return bind_sources(reader, rows)


@pytest.fixture
def reader() -> Reader:
    return Reader.open(ReadClient("http://127.0.0.1:9", "t"), SUBJECT, bytes)


def fetch(bound: dict[str, Source], name: str, request_id: str = ID, **more: str) -> Document:
    return bound[f"testing_farm_get_{name}"].fetch(json.dumps({"request_id": request_id} | more))


def told(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.data)
    return found


def test_it_is_off_unless_it_is_configured() -> None:
    assert open_testing_farm("https://api.example", "https://results.example", "", {}) == ()


def test_a_request_is_told_with_its_outcome(bound: dict[str, Source]) -> None:
    found = told(fetch(bound, "request"))
    assert found["state"] == "complete"
    assert found["overall"] == "failed"
    assert found["summary"] == "one failed"
    assert found["tested"] == {"url": "https://gitlab.example/Team/app.git", "ref": "main"}
    assert found["environments"] == [{"arch": "x86_64", "compose": "Fedora-43"}]


def test_the_results_show_failed_tests_and_count_the_rest(bound: dict[str, Source]) -> None:
    found = told(fetch(bound, "results"))
    assert found["counts"] == {"passed": 1, "failed": 1, "error": 1, "skipped": 1}
    assert found["failed"] == [
        {
            "suite": "/plans/all",
            "name": "/bad",
            "classname": "c",
            "status": "failed",
            "message": "expected 3",
            "output": "line 1\nline 2",
        },
        {"suite": "/plans/all", "name": "/err", "status": "error", "output": "boom"},
    ]


def test_a_request_for_another_repository_is_not_shown(
    farm: TestingFarm, bound: dict[str, Source]
) -> None:
    farm.requests[ID]["test"] = {"fmf": {"url": "https://gitlab.example/secret/app"}}
    for name in ("request", "results"):
        with pytest.raises(SourceError, match="tests a repository this session may not look at"):
            fetch(bound, name)


@pytest.mark.parametrize("bad", ["", "../requests", ID.upper(), ID + "/", "1"])
def test_an_id_is_a_uuid_and_nothing_else(
    farm: TestingFarm, bound: dict[str, Source], bad: str
) -> None:
    with pytest.raises(ArgumentError, match="request_id"):
        fetch(bound, "request", bad)
    assert farm.asked == []


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "file:///etc/passwd", "//evil/x", "http://[x", "x"]
)
def test_results_are_read_only_where_the_operator_allows(
    farm: TestingFarm, store: TestingFarm, bound: dict[str, Source], url: str
) -> None:
    farm.requests[ID]["result"]["xunit_url"] = url
    with pytest.raises(SourceError, match="not where the operator allows"):
        fetch(bound, "results")
    assert store.asked == []


def test_results_in_the_answer_itself_are_read(farm: TestingFarm, bound: dict[str, Source]) -> None:
    farm.requests[ID]["result"]["xunit"] = "<testsuite><testcase name='a'/></testsuite>"
    assert told(fetch(bound, "results"))["counts"]["passed"] == 1


def test_a_request_under_way_is_asked_for_again(
    farm: TestingFarm, bound: dict[str, Source]
) -> None:
    farm.requests[ID] |= {"state": "running", "result": None}
    assert told(fetch(bound, "request"))["state"] == "running"
    with pytest.raises(SourceError, match=r"none yet \(the request is running\)"):
        fetch(bound, "results")
    farm.requests[ID]["state"] = "error"
    assert told(fetch(bound, "request"))["state"] == "error"


def test_results_that_were_deleted_are_said_to_be(
    store: TestingFarm, bound: dict[str, Source]
) -> None:
    store.files.clear()
    with pytest.raises(SourceError, match=r"does not have it .* kept for some months only"):
        fetch(bound, "results")


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><testsuite>&b;</testsuite>'
WRONG = [
    (b"", "no element found"),
    (b"<html>", "no element found"),
    (b"<a></b>", "mismatched tag"),
    (BOMB, "it declares entities"),
    (b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><a>&a;</a>', "it declares entities"),
    (b"<a>" * 60, "deeper than 50"),
]


@pytest.mark.parametrize(("data", "why"), WRONG)
def test_xml_that_is_none_or_a_trap_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=f"it: not a usable XML report: .*{why}"):
        Report().read([data], "it")


def test_a_long_report_is_capped() -> None:
    case = b"<testcase name='n'><failure message='" + b"m" * 9000 + b"'>" + b"t" * 9000
    data = b"<testsuite>" + (case + b"</failure></testcase>") * 250 + b"</testsuite>"
    report = Report().read([data[at : at + 999] for at in range(0, len(data), 999)], "it")
    assert report.counts["failed"] == 250
    assert len(report.bad) == xunit.MAX_CASES
    facts = report.bad[0].describe()
    assert len(str(facts["message"])) == len(str(facts["output"])) == xunit.MAX_TEXT


OWN = b"""<testsuites overall-result="failed">
<properties><property name="baseosci.overall-result" value="failed"/></properties>
<testsuite name="/plans/all" result="failed" tests="2">
<logs><log href="BASE/work-all" name="workdir"/></logs>
<testcase name="/smoke" result="passed"/>
<testcase name="/install" result="failed"><note>check 'dmesg' failed</note><logs>
<log href="BASE/work-all/plans/all/execute/data/install" name="log_dir"/>
<log href="BASE/work-all/plans/all/execute/data/install/output.txt" name="testout.log"/>
<log href="./work-all/checks/dmesg.txt"/><log href="https://elsewhere.example/x.txt"/>
<log href="/etc/passwd.txt"/></logs>
</testcase></testsuite>
<testsuite name="/plans/broken" result="error" tests="0">
<logs><log href="BASE/work-broken/tmt-run.log" name="tmt-log"/></logs></testsuite>
</testsuites>"""
OUTPUT = "work-all/plans/all/execute/data/install/output.txt"


def test_its_own_kind_of_results_is_read_with_the_files_of_what_failed(
    store: TestingFarm, bound: dict[str, Source]
) -> None:
    base = f"{store.url}/results/{ID}"
    store.files[f"/results/{ID}/results.xml"] = OWN.replace(b"BASE", base.encode())
    found = told(fetch(bound, "results"))
    assert found["counts"] == {"passed": 1, "failed": 1, "error": 0, "skipped": 0}
    assert found["failed"] == [
        {
            "suite": "/plans/all",
            "name": "/install",
            "status": "failed",
            "output": "check 'dmesg' failed",
            "logs": [OUTPUT, "work-all/checks/dmesg.txt"],
        },
        {"suite": "/plans/broken", "status": "error", "logs": ["work-broken/tmt-run.log"]},
    ]


def test_a_file_of_a_request_is_read_and_quoted_also_when_it_is_gone(
    store: TestingFarm, bound: dict[str, Source], reader: Reader
) -> None:
    store.files[f"/results/{ID}/{OUTPUT}"] = b"\x1b[1msetup\x1b[0m\nE: timed out\n"
    document = fetch(bound, "log", file=OUTPUT)
    assert (document.kind, document.data) == (DocumentKind.LOG, b"setup\nE: timed out\n")
    store.files.clear()
    place, found = RequestFile(ID, OUTPUT), CapturedDocuments(reader, bound)
    assert found.read_lines(place) == ["setup", "E: timed out"]
    assert found.link_lines(place, 2, 2) == f"{store.url}/results/{ID}/{OUTPUT}"
    with pytest.raises(SourceError, match="not fetched"):
        found.read_lines(RequestFile(ID, "pipeline.log"))
    with pytest.raises(SourceError, match="kept for some months only"):
        fetch(bound, "log", file="pipeline.log")


def test_a_long_file_keeps_both_ends(store: TestingFarm, bound: dict[str, Source]) -> None:
    size = testing_farm.MAX_LOG + 1_000_000
    store.files[f"/results/{ID}/pipeline.log"] = b"first\n" + b"y\n" * (size // 2) + b"last\n"
    document = fetch(bound, "log", file="pipeline.log")
    assert document.data.startswith(b"first\n")
    assert document.data.endswith(b"last\n")
    assert "cut from its middle" in document.gaps


@pytest.mark.parametrize(
    "file", ["../x", "a/../../x", "/etc/passwd", "", "http://evil/x?", "a\nb", "a#b", "x" * 501]
)
def test_a_file_cannot_lie_elsewhere(
    store: TestingFarm, bound: dict[str, Source], file: str
) -> None:
    with pytest.raises(ArgumentError, match="file"):
        fetch(bound, "log", file=file)
    assert store.asked == []


@pytest.mark.parametrize("where", ["https://elsewhere.example/results/x", "BASE/../x", None])
def test_files_are_read_only_where_the_operator_allows(
    farm: TestingFarm, store: TestingFarm, bound: dict[str, Source], where: str | None
) -> None:
    base = f"{store.url}/results"
    farm.requests[ID]["run"] = {"artifacts": where and where.replace("BASE", base)}
    with pytest.raises(SourceError, match="has left no files"):
        fetch(bound, "log", file=OUTPUT)
    assert store.asked == []


def test_a_file_of_somebody_elses_request_cannot_be_named(
    farm: TestingFarm, store: TestingFarm, bound: dict[str, Source]
) -> None:
    farm.requests[ID]["test"]["fmf"]["url"] = "https://gitlab.example/others/app"
    with pytest.raises(SourceError, match="a repository this session may not look at"):
        fetch(bound, "log", file=OUTPUT)
    assert store.asked == []


def test_many_suites_are_read_in_time() -> None:
    bad = b"<testsuite result='error'><testcase result='failed' name='a'/></testsuite>"
    begun = time.process_time()
    report = Report().read([b"<testsuites>" + bad * 100_000 + b"</testsuites>"], "it")
    assert len(report.bad) == xunit.MAX_CASES
    assert time.process_time() - begun < 5.0
