"""The operators' page of tests: who sees it, and what it shows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kept_tests import DAY, keep, make_failed, make_pipeline, make_story
from tests.unit.pages.pages import (
    ATTRIBUTES,
    FORM_TAGS,
    HOSTILE,
    NOW,
    TAGS,
    TOKEN,
    Seen,
    Site,
)
from worker.pages.ledger import MOST_LIVES, Query, build_page, parse_query
from worker.sessions.folder import Folder
from worker.sessions.ledger import LedgerStore
from worker.sessions.objects import Stored

OWNERS = (("tests/test_ferry.py", "mara, crew/pier"),)
LATE = "tests.test_ferry.TestSeats test_late"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def kept(site: Site) -> Site:
    keep(site.store, make_story(NOW), owners=OWNERS)
    return site


def read(site: Site, query: str = "") -> str:
    answer = site.client.get(f"/tests{query}", auth=("me", TOKEN))
    assert answer.status_code == 200
    return answer.text


def read_text(*at: Any) -> str:
    return " ".join(Seen(read(*at)).text.split())


def test_it_is_for_who_has_the_token(site: Site, tmp_path: Path) -> None:
    for auth in (None, ("me", "x"), ("", "")):
        assert site.client.get("/tests", auth=auth).status_code == 401
    assert site.opened == 0
    without = Site(tmp_path / "other", token="")
    assert without.client.get("/tests", auth=("me", "")).status_code == 404


@pytest.mark.parametrize("query", ["?days=8", "?order=worst", "?days=x&order=newest"])
def test_there_is_no_other_period_or_order(site: Site, query: str) -> None:
    assert site.client.get(f"/tests{query}", auth=("me", TOKEN)).status_code == 404


def test_without_records_it_says_so(site: Site) -> None:
    assert "No test is recorded in this time." in read_text(site)
    assert "No project matches in this time." in read_text(site, "?project=none")
    assert "No test of that name has failed" in read_text(site, "?test=none")
    keep(site.store, [make_pipeline(1, NOW - DAY)])
    assert "No test has failed without a cause in this time." in read_text(site)


def test_a_row_has_all_that_an_operator_asks(kept: Site) -> None:
    text, page = read_text(kept), read(kept)
    for words in (
        f"{LATE} aviary/tern · unit",
        "2 flakes, on and off for 7 d 7 h",
        "23% (8–50) 3 of 13 runs",
        "since 2027-01-05 last 2027-01-14, 1 run since mara, crew/pier",
        "mara, crew/pier 2 merge requests hit 8 min lost",
    ):
        assert words in text, words
    assert "test_new" not in text
    assert page.count("<title>") == 1 + 3
    assert "2027-01-05: 1 flake, 0 other failures" in page


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("flakiest", ["test_late"]),
        ("newest", ["test_new", "test_late"]),
        ("slowest", ["test_late"]),
    ],
)
def test_each_order_has_its_own_list(kept: Site, order: str, names: list[str]) -> None:
    page = build_page(LedgerStore(kept.store.records), NOW, Query(order=order))  # type: ignore[arg-type]
    assert [line.row.life.test.name for line in page.lines] == names
    assert f"?days=30&amp;order={order}" in read(kept, "?order=newest&days=30") or order == "newest"


def test_the_link_of_a_test_leads_to_its_life(kept: Site) -> None:
    (link,) = {each for each in Seen(read(kept)).links if "test=" in each and "test_late" in each}
    text = read_text(kept, link)
    for words in (
        "Failed3 of 13 runs, 23% (8–50)",
        "Merge requests hit2",
        "Ownermara, crew/pier",
        "pipeline 200 · !12 · unit · passed again in pipeline 201AssertionError: assert 12 == 13",
        "pipeline 80 · main · unit · passed again in pipeline 81",
    ):
        assert words in text, words
    assert text.index("pipeline 202") < text.index("pipeline 200 ·") < text.index("pipeline 80 ·")


def test_many_tests_of_one_name_are_cut_and_it_is_said(site: Site) -> None:
    failed = [make_failed("test_late", job=f"job{chr(97 + at)}") for at in range(MOST_LIVES + 3)]
    keep(site.store, [make_pipeline(1, NOW - DAY, *failed)])
    text = read_text(site, "?test=test_late")
    assert text.count("Proven flakes") == MOST_LIVES
    assert "3 more tests of that name: give more of it." in text


def test_of_one_project(kept: Site) -> None:
    other = [make_pipeline(5, NOW - DAY, make_failed("test_gull"))]
    keep(kept.store, other, 8, "aviary/gull")
    both = read(kept, "?order=newest&project=aviary/*")
    assert "test_gull" in both
    assert "test_late" in both
    for project in ("8", "aviary/gull"):
        page = read(kept, f"?order=newest&project={project}")
        assert "test_gull" in page
        assert "test_late" not in page


def test_a_strip_has_a_place_for_each_day_of_the_period(site: Site) -> None:
    failed = make_failed("test_a")
    runs = [make_pipeline(at + 1, NOW - at * DAY, failed) for at in (0, 1, 5)]
    twice = replace(runs[1], pipeline_id=7, sha="7" * 40)
    before = make_pipeline(9, NOW - 6.9 * DAY, failed)
    keep(site.store, [*runs, twice, before])
    (line,) = build_page(LedgerStore(site.store.records), NOW, Query(test="test_a", days=7)).lines
    assert [(cell.place, cell.flakes, cell.others) for cell in line.strip] == [
        *((1, 0.0, 5.0), (5, 0.0, 10.0), (6, 0.0, 5.0)),
    ]


def test_hostile_texts_are_shown_as_text(site: Site) -> None:
    failed = make_failed(HOSTILE, job=HOSTILE, text=HOSTILE, file=HOSTILE)
    runs = [replace(make_pipeline(1, NOW - DAY, failed, job=HOSTILE), ref=HOSTILE)]
    keep(site.store, runs, project=HOSTILE, owners=((HOSTILE, HOSTILE),))
    for query in ("?order=newest", "?test=script", f"?test={HOSTILE}&project="):
        page = site.client.get("/tests", params=query[1:], auth=("me", TOKEN)).text
        seen = Seen(page)
        assert seen.tags <= TAGS | FORM_TAGS
        assert seen.attributes <= ATTRIBUTES
        assert all(link.startswith(("?", "#", "sessions", "incidents")) for link in seen.links)
        assert "\u202e" not in page
    assert "<script>alert(1)</script>" in Seen(read(site, "?order=newest")).text


def test_a_damaged_day_does_no_harm(kept: Site) -> None:
    (kept.root / "tests/7/2027-01-15.json").write_bytes(b"{")
    assert "test_late" in read(kept)


def test_the_other_pages_lead_to_it(site: Site) -> None:
    for page, link in (
        ("sessions", "tests"),
        ("sessions/report", "../tests"),
        ("incidents", "tests"),
    ):
        answer = site.client.get(f"/{page}", auth=("me", TOKEN))
        assert link in Seen(answer.text).links


class CountingFolder(Folder):
    """Counts what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 10.0)
        self.names: list[str] = []

    def read(self, name: str, limit: int) -> Stored | None:
        self.names.append(name)
        return super().read(name, limit)


@pytest.mark.parametrize("query", [Query(), Query(test="test_late"), Query(project="7")])
def test_each_day_is_read_once_and_one_more_for_its_project(kept: Site, query: Query) -> None:
    keep(kept.store, make_story(NOW), 8, "aviary/gull")
    folder = CountingFolder(kept.root)
    build_page(LedgerStore(folder), NOW, query)
    projects = 1 if query.project else 2
    days = len(set(folder.names)) / projects
    assert days == 11
    assert len(folder.names) == (days + 1) * projects


def test_a_query_is_read_and_linked_alike() -> None:
    query = parse_query({"project": "a/b", "test": "x y", "days": "60"}.get)  # type: ignore[arg-type]
    assert query == Query("a/b", "x y", 60)
    assert query.link(test="") == "?project=a%2Fb&days=60&order=flakiest"
