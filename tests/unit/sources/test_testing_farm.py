import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clusters import TestingFarm
from worker.core.context import Subject
from worker.core.ports import Document, Source
from worker.errors import ArgumentError, SourceError
from worker.sources import xunit
from worker.sources.client import ReadClient
from worker.sources.reader import Reader
from worker.sources.table import bind
from worker.sources.testing_farm import open_testing_farm
from worker.sources.xunit import Report

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
        assert running.unexpected == []


@pytest.fixture
def store() -> Iterator[TestingFarm]:
    """The host that keeps results: it never sees the token."""
    with TestingFarm() as running:
        assert isinstance(running, TestingFarm)
        yield running
        assert running.unexpected == []


@pytest.fixture
def bound(farm: TestingFarm, store: TestingFarm) -> dict[str, Source]:
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
    reader = Reader.open(ReadClient("http://127.0.0.1:9", "t"), SUBJECT, bytes)
    return bind(reader, rows)


def fetch(bound: dict[str, Source], name: str, request_id: str = ID) -> Document:
    return bound[f"testing_farm_get_{name}"].fetch(json.dumps({"request_id": request_id}))


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
    facts = report.bad[0].facts()
    assert len(str(facts["message"])) == len(str(facts["output"])) == xunit.MAX_TEXT
