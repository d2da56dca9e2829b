"""The operators' page of incidents: who sees it, what it shows, and the report's line of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kept_incidents import HOUR, LANDINGS, SESSION, keep, make_closed, make_failure, make_open
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
from worker.incidents.record import GONE, NOBODY, IncidentState, RequestRecord
from worker.jobs.incident_rows import describe_sum, read_rows, sum_rows
from worker.pages.operators import MOST_INCIDENTS
from worker.sessions.incidents import IncidentStore

DAY = 24 * HOUR


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def read(site: Site, query: str = "", path: str = "/incidents") -> str:
    answer = site.client.get(f"{path}{query}", auth=("me", TOKEN))
    assert answer.status_code == 200
    return answer.text


def read_text(*at: Any) -> str:
    return " ".join(Seen(read(*at)).text.split())


def test_it_is_for_who_has_the_token(site: Site, tmp_path: Path) -> None:
    for auth in (None, ("me", "x"), ("", "")):
        assert site.client.get("/incidents", auth=auth).status_code == 401
    assert site.opened == 0
    without = Site(tmp_path / "other", token="")
    assert without.client.get("/incidents", auth=("me", "")).status_code == 404


def test_without_incidents_it_says_so(site: Site) -> None:
    assert "There are no incidents." in read_text(site)
    assert "No incident matches." in read_text(site, "?project=none")


def test_open_ones_come_first_with_all_that_an_operator_asks(site: Site) -> None:
    request = RequestRecord(50, 300, NOW, told_incidents=("main-101",), is_short=True)
    keep(site.store, [make_closed(NOW - 5 * HOUR), make_open(NOW - 9 * HOUR)], [request])
    page = read(site)
    text, seen = " ".join(Seen(page).text.split()), Seen(page)
    assert text.index("!123 Count hours anew") < text.index("!130 Mend the clock")
    for words in (
        "E assert clock() == 24",
        "aviary/tern main · test · pipeline 101",
        "being mended in !130",
        "9 h 00 min 3 2 without a model",
        "until 2027-01-15 05:00: !130 Mend the clock",
    ):
        assert words in text, words
    for name, figure in (
        *(("Incidents", "2"), ("Open now", "1"), ("Red for", "11 h 00 min")),
        *(("Merge requests hit", "4"), ("Answered without a model", "2")),
        ("Time saved", "4 min"),
    ):
        assert f"<dt>{name}</dt><dd>{figure}</dd>" in page
    assert "https://gitlab.example.com/aviary/tern/-/pipelines/101" in seen.links
    (address,) = [link for link in seen.links if SESSION in link]
    assert address.startswith(f"sessions/{SESSION}?sig=")
    assert site.signer is not None
    assert site.signer.is_valid(SESSION, address.partition("sig=")[2], site.now)


def test_what_nobody_was_told_of_is_not_there(site: Site) -> None:
    suspected = replace(make_open(NOW - HOUR), state=IncidentState.SUSPECTED)
    flake = make_closed(NOW - 2 * HOUR, NOBODY)
    keep(site.store, [flake, suspected])
    assert "There are no incidents." in read_text(site)


def test_of_one_project(site: Site) -> None:
    keep(site.store, [make_open(NOW - HOUR)])
    keep(site.store, [make_closed(NOW - 9 * HOUR, GONE)], project_id=8, project="aviary/gull")
    both = read(site, "?project=aviary/*")
    assert 'href="?project=aviary/tern"' in both
    assert 'href="?project=aviary/gull"' in both
    for query in ("?project=8", "?project=aviary/gull"):
        page = read(site, query)
        assert "its job or branch is gone" in page
        assert ">aviary/tern<" not in page


def test_many_are_cut_and_it_is_said(site: Site) -> None:
    for project in range(1, 5):
        over = [make_closed(NOW - at * HOUR, number=at) for at in range(3, 43)]
        keep(site.store, over, project_id=project, project=f"group/p{project}")
    page = read(site)
    assert page.count("<tr>") == MOST_INCIDENTS + 1
    assert "60 older ones are not shown." in page
    assert len(page) < 100_000


def test_hostile_texts_are_shown_as_text(site: Site) -> None:
    failure = make_failure(
        NOW - HOUR, text=HOSTILE, jobs=(HOSTILE,), since_url="javascript:alert(1)", since_pipeline=7
    )
    bad = replace(make_open(NOW), failures=(failure,), session_id=HOSTILE, cause=HOSTILE)
    landing = replace(LANDINGS[0], title=HOSTILE, author=HOSTILE)
    over = replace(make_closed(NOW, by=landing.sha), incident_id="main-1")
    keep(site.store, [bad, over], project=HOSTILE, branch=HOSTILE, landings=(landing,))
    page = read(site)
    seen = Seen(page)
    assert seen.tags <= TAGS | FORM_TAGS
    assert seen.attributes <= ATTRIBUTES
    ours = ("?", "#", "sessions", "tests", "https://gitlab.example.com/")
    assert all(link.startswith(ours) for link in seen.links)
    assert "<script>alert(1)</script>" in seen.text
    assert "\u202e" not in page


def test_a_damaged_branch_does_no_harm(site: Site) -> None:
    keep(site.store, [make_open(NOW - HOUR)])
    (site.root / "incidents/7/branch-odd.json").write_bytes(b"{")
    (site.root / "incidents/7/branch-more.json").write_bytes(b'{"project_id": 7}')
    assert "E assert clock() == 24" in read_text(site)


def test_the_report_has_a_line_of_them(site: Site) -> None:
    assert "Red branches" not in read(site, "", "/sessions/report")
    keep(site.store, [make_open(NOW - 3 * HOUR), make_closed(NOW - 20 * DAY)])
    words = (
        "Red branches: 2 incidents (1 open), red for 5 h 00 min, 3 merge requests hit, "
        "1 of them answered without a model, which saved 2 min."
    )
    assert words in read_text(site, "?project=aviary/tern", "/sessions/report")
    assert 'href="../incidents?project=aviary/tern"' in read(
        site, "?project=aviary/tern", "/sessions/report"
    )
    week = "Red branches: 1 incident (1 open), red for 3 h 00 min, 2 merge requests hit,"
    assert week in read_text(site, "?days=7", "/sessions/report")
    assert "Red branches" not in read(site, "?project=other", "/sessions/report")


def test_the_pages_lead_to_each_other(site: Site) -> None:
    assert "incidents" in Seen(read(site, "", "/sessions")).links
    assert "../incidents" in Seen(read(site, "", "/sessions/report")).links
    assert {"sessions", "sessions/report"} <= set(Seen(read(site)).links)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *(
            (0, "less than a minute"),
            (29, "less than a minute"),
            (31, "1 min"),
            (3599, "1 h 00 min"),
        ),
        *((3720, "1 h 02 min"), (DAY, "1 d 0 h"), (51 * HOUR, "2 d 3 h")),
    ],
)
def test_how_long_is_told_in_short_words(site: Site, seconds: float, words: str) -> None:
    keep(site.store, [make_open(NOW - seconds)])
    rows = read_rows(IncidentStore(site.store.records))
    assert f"red for {words}," in describe_sum(sum_rows(rows, NOW, 30))


def test_a_clock_that_is_behind_makes_no_time_negative(site: Site) -> None:
    keep(site.store, [make_open(NOW + HOUR)])
    assert "less than a minute" in read_text(site)
