"""The operators' page of verdicts: who sees it, what it shows, and that it stays small."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobs.test_precision import turn as make_judged_turn
from tests.unit.pages.pages import ATTRIBUTES, HOSTILE, KEY, NOW, TAGS, TOKEN, Seen, Site
from worker.jobs import precision
from worker.jobs.precision import make_json
from worker.jobs.verdict_days import (
    DAY,
    JudgedTurn,
    count_day,
    count_ended_days,
    list_days,
    read_days,
    write_day,
)
from worker.pages.operators import MOST_ROWS
from worker.verdict.aftermath import Label

AUTH = ("me", TOKEN)
YESTERDAY = next(iter(list_days(NOW - DAY, NOW - DAY)))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def turn(number: int, label: Label = Label.CONFIRMED, **changes: Any) -> JudgedTurn:
    fields: dict[str, Any] = {
        "session_id": f"{number:020x}",
        "project_id": 7,
        "project": "aviary/tern",
        "web_url": f"https://gitlab.example.com/aviary/tern/-/merge_requests/{number}",
        "started_at": NOW - DAY,
        "jobs": "clock",
        "cause": "The clock ticks late.",
    }
    return make_judged_turn(number, label, "readers say that it is wrong", **(fields | changes))


def count(site: Site, *turns: JudgedTurn, day: str = YESTERDAY) -> None:
    write_day(site.store.records, count_day(day, turns, NOW))


def read(site: Site, query: str = "") -> str:
    answer = site.client.get(f"/sessions/report{query}", auth=AUTH)
    assert answer.status_code == 200
    return answer.text


def test_it_is_for_who_has_the_token(site: Site, tmp_path: Path) -> None:
    assert site.client.get("/sessions/report").status_code == 401
    assert site.client.get("/sessions/report", auth=("me", "x")).status_code == 401
    assert site.opened == 0
    without = Site(tmp_path / "other", token="")
    assert without.client.get("/sessions/report", auth=("me", "")).status_code == 404


def test_shares_with_their_intervals_and_what_they_cost(site: Site) -> None:
    count(site, *map(turn, range(6)), turn(6, Label.CONTRADICTED), turn(7, Label.OPEN))
    text = " ".join(Seen(read(site)).text.split())
    assert "86% (49–97)" in text
    assert "6 confirmed, 1 contradicted, 1 open" in text
    assert "$0.67" in text
    assert f"Counted from {YESTERDAY} to {YESTERDAY}" in text


def test_what_was_contradicted_leads_to_its_session_and_merge_request(site: Site) -> None:
    count(site, turn(1), turn(2), turn(3, Label.CONTRADICTED, session_id=KEY.session_id))
    page = read(site)
    seen = Seen(page)
    assert "Flaky; readers say that it is wrong" in seen.text
    assert "The clock ticks late." in seen.text
    assert "https://gitlab.example.com/aviary/tern/-/merge_requests/3" in seen.links
    (address,) = [link for link in seen.links if link.startswith(KEY.session_id)]
    site.keep()
    assert site.signer is not None
    assert site.signer.is_valid(KEY.session_id, address.partition("sig=")[2], site.now)


def test_of_one_project_and_of_more_days(site: Site) -> None:
    count(site, turn(1), turn(2, project="other/place", project_id=8))
    old = next(iter(list_days(NOW - 50 * DAY, NOW - 50 * DAY)))
    count(site, turn(3, project="old/place"), day=old)
    assert "old/place" not in read(site)
    assert "old/place" in read(site, "?days=90")
    for query in ("aviary/*", "aviary/tern", "7"):
        page = read(site, f"?project={query}")
        assert "aviary/tern" in page
        assert "other/place" not in page
    assert "There are no verdicts of this project" in read(site, "?project=none")
    assert site.client.get("/sessions/report?days=10000", auth=AUTH).status_code == 404


def test_without_verdicts_it_says_so(site: Site) -> None:
    assert "There are no verdicts in this time." in read(site)
    count(site)
    assert "There are no verdicts in this time." in read(site)


MIDNIGHT = 1_800_057_600.0
"""2027-01-16, 00:00 UTC."""


@pytest.mark.parametrize("now", [MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + DAY / 2])
@pytest.mark.parametrize("swept", [0, 1, 2, 40])
def test_it_says_what_the_command_says_at_the_same_moment(
    site: Site, now: float, swept: int
) -> None:
    """Around midnight, before a sweep, while it is counting, and after it."""
    first = MIDNIGHT - (30 + (now < MIDNIGHT)) * DAY
    times = [now, now - 2, now - 3600, *(now - 0.5 * DAY * number for number in range(1, 70))]
    for number, at in enumerate(times):
        site.list_row(replace(turn(number + 1, started_at=at).row, label="confirmed"))
    site.now = now
    list(islice(count_ended_days(site.store, now), swept))
    site.list_row(replace(turn(99, started_at=now).row, dry_run=True))  # It is not counted.
    site.list_row(turn(100, started_at=now - 1).row)  # It ended while the sweep was at work.
    known = sum(at >= first for at in times)
    within = known + (now != MIDNIGHT or not swept)  # A count stays until the next day's sweep.
    told = read_days(site.store, now, 30)
    (command,) = make_json(told)["all"]
    assert (command["verdicts"], command["confirmed"]) == (within, known)
    page = read(site)
    text = " ".join(Seen(page).text.split())
    days = sorted(each.day for each in told)
    for name, figure in ("Verdicts", within), ("Known to be right or wrong", known):
        assert f"<dt>{name}</dt><dd>{figure}</dd>" in page
    assert f"Counted from {days[0]} to {days[-1]}." in text
    for line in precision.count_groups(told)["week"]:
        assert f"{line.name}: {line.right_count} confirmed" in text


def test_many_projects_are_cut_and_it_is_said(site: Site) -> None:
    count(site, *(turn(number, project=f"group/p{number}") for number in range(300)))
    page = read(site)
    assert page.count('href="?days=30&amp;project=') == MOST_ROWS
    assert "280 more with fewer verdicts are not shown." in page
    assert len(page) < 60_000


def test_hostile_texts_are_shown_as_text(site: Site) -> None:
    bad: dict[str, Any] = {"project": HOSTILE, "jobs": HOSTILE, "cause": HOSTILE, "model": HOSTILE}
    urls = ("javascript:alert(1)", "https://x/\n1", "https://x/</a><script>")
    turns = [turn(at, Label.CONTRADICTED, web_url=url, **bad) for at, url in enumerate(urls)]
    count(site, *turns, turn(9, Label.CONTRADICTED, session_id='"><script>', verdict=HOSTILE))
    for query in ("", "?project=" + "%3Cscript%3E"):
        seen = Seen(read(site, query))
        assert seen.tags <= TAGS
        assert seen.attributes <= ATTRIBUTES
        assert not [link for link in seen.links if link.startswith("javascript")]


def test_a_failure_on_a_branch_is_named_by_the_branch(site: Site) -> None:
    url = "https://gitlab.example.com/aviary/tern/-/commits/release/1"
    count(site, turn(1), turn(2, mr_iid=0, branch="release/1", web_url=url))
    seen = Seen(read(site))
    assert url in seen.links
    assert "@release/1" in seen.text
    assert "!1" in seen.text
