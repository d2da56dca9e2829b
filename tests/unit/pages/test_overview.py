"""The operators' list: who sees it, what is in it, and that it stays small."""

import base64
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.contexts import SUBJECT, context
from tests.unit.pages.pages import ATTRIBUTES, FORM_TAGS, KEY, NOW, TAGS, TOKEN, Seen, Site, hostile
from worker.conversation.context import GIVEN_UP, Context, Outcome, SessionKey, Status
from worker.conversation.limits import TurnUsage
from worker.pages.operators import MAX_PARKED, ROWS, Overview, Query, build_overview
from worker.pages.render import render_page
from worker.sessions.store import Claim

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def turn(number: int = 0, project: str = "aviary/tern", project_id: int = 7) -> Context:
    """One that began `number` seconds ago."""
    return context(
        session_id=f"{number:020x}",
        subject=replace(SUBJECT, project=project, project_id=project_id),
        turn_usage=TurnUsage(NOW - number, iterations=3, cost_usd=0.25),
        outcome=Outcome(Status.DONE, "x"),
        verdict="flaky",
        seconds=61.0,
    )


def basic(token: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (BEARER, 200),
        (basic(TOKEN), 200),
        (basic(TOKEN + "x"), 401),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": TOKEN}, 401),
        ({"authorization": "Basic ???"}, 401),
        ({"authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, 401),
    ],
)
def test_the_list_is_for_who_has_the_token(
    site: Site, headers: dict[str, str], status: int
) -> None:
    answer = site.client.get("/sessions", headers=headers)
    assert answer.status_code == status
    assert (site.opened > 0) is (status == 200)
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Basic ")


def test_without_a_token_there_is_no_list(tmp_path: Path) -> None:
    site = Site(tmp_path, token="")
    for headers in ({}, {"authorization": "Bearer "}, basic("")):
        assert site.client.get("/sessions", headers=headers).status_code == 404


def test_a_row_says_what_a_turn_was_about_and_leads_to_its_page(site: Site) -> None:
    site.keep(replace(turn(), session_id=KEY.session_id))
    seen = Seen(site.client.get("/sessions", headers=BEARER).text)
    text = " ".join(seen.text.split())
    for part in (
        "aviary/tern!42",
        "pipeline 900",
        "Flaky",
        "answered",
        "$0.25",
        "1 min 01 s",
        "model",
    ):
        assert part in text
    page = next(link for link in seen.links if "?sig=" in link)
    assert site.client.get(f"/{page}").status_code == 200
    site.now += 25 * 3600
    assert site.client.get(f"/{page}").status_code == 404


def test_a_verdict_without_a_model_says_so(site: Site) -> None:
    site.keep(replace(turn(), session_id=KEY.session_id, model=""))
    site.list(turn(10))
    assert site.client.get("/sessions", headers=BEARER).text.count("no model") == 1


def test_a_turn_that_nobody_works_on_any_more_is_interrupted(site: Site) -> None:
    running = replace(turn(), session_id=KEY.session_id, outcome=None)
    site.list(running)
    assert "Interrupted" in site.client.get("/sessions", headers=BEARER).text
    site.store.claim_turn(KEY, 0, Claim("worker", "trigger", NOW + 60), NOW)
    assert "Running" in site.client.get("/sessions", headers=BEARER).text


def test_what_was_given_up_stands_at_the_head_of_the_first_page(site: Site) -> None:
    assert "<h2>Given up" not in site.client.get("/sessions", headers=BEARER).text
    site.parked = [f"trigger{number}: <script>reason</script>" for number in range(MAX_PARKED + 5)]
    page = site.client.get("/sessions", headers=BEARER).text
    seen = Seen(page)
    assert seen.tags <= TAGS | FORM_TAGS
    assert "trigger0: <script>reason</script>" in seen.text
    assert f"trigger{MAX_PARKED - 1}:" in seen.text
    assert f"trigger{MAX_PARKED}:" not in seen.text
    assert "and more" in seen.text
    for query in ("before=0", "project=7"):
        assert "<h2>Given up" not in site.client.get(f"/sessions?{query}", headers=BEARER).text


def test_thousands_of_turns_are_read_a_page_at_a_time(site: Site) -> None:
    for number in range(ROWS * 2 + 3):
        site.list(turn(number))
    found: list[str] = []
    query = "/sessions"
    sizes = []
    while query:
        page = site.client.get(query, headers=BEARER).text
        links = Seen(page).links
        rows = [link[9:29] for link in links if "?sig=" in link]
        sizes.append(len(rows))
        found += rows
        query = next((f"/sessions{link}" for link in links if "before=" in link), "")
    assert sizes == [ROWS, ROWS, 3]
    assert found == [f"{number:020x}" for number in range(ROWS * 2 + 3)]


@pytest.mark.parametrize("query", ["aviary/tern", "aviary/*", "7"])
def test_the_list_of_one_project(site: Site, query: str) -> None:
    site.list(turn(1))
    site.list(turn(2, "other/place", 70))
    text = site.client.get("/sessions", params={"project": query}, headers=BEARER).text
    assert "aviary/tern!42" in "".join(Seen(text).text.split("\n"))
    assert "other/place" not in text


def test_hostile_rows_are_shown_as_text_or_not_at_all(site: Site) -> None:
    site.list(hostile())
    for number, row in enumerate((b"{}", b"[", b'{"turn": true}', b"[" * 9000, b"\xff")):
        site.store.recent_turns.put_row(KEY, number + 1, NOW - number, row)
    bad = "</code><script>alert(1)</script>"
    for project in (bad, ""):
        page = site.client.get("/sessions", params={"project": project}, headers=BEARER).text
        seen = Seen(page)
        assert seen.tags <= TAGS | FORM_TAGS
        assert seen.attributes <= ATTRIBUTES
    assert page.count("</tr>") == 2
    for cursor in ("../x", "%00", "9" * 500):
        answer = site.client.get("/sessions", params={"before": cursor}, headers=BEARER)
        assert answer.status_code in (200, 404)


ROWS_TO_FIND = [
    replace(turn(1), verdict="infrastructure"),
    replace(turn(2, "other/place", 70), outcome=Outcome(Status.FAILED, "", f"{GIVEN_UP}it died")),
    replace(turn(3), dry_turns=(0,)),
    replace(turn(4), subject=replace(SUBJECT, title="Straße & Tide", author="mara")),
    replace(turn(5), outcome=Outcome(Status.PARTIAL, "x"), model="test/other"),
    replace(turn(6), outcome=None, verdict=""),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("verdict=infrastructure", [1]),
        ("verdict=flaky", [2, 3, 4, 5]),
        ("verdict=caused by this change", []),
        ("verdict=anything", [1, 2, 3, 4, 5, 6]),
        ("state=given-up", [2]),
        ("state=failed", []),
        ("state=dry-run", [3]),
        ("state=done", [1, 3, 4]),
        ("state=partial", [5]),
        ("state=interrupted", [6]),
        ("state=running", []),
        ("state=<b>", [1, 2, 3, 4, 5, 6]),
        ("text=STRASSE", [4]),
        ("text=tide mara", [4]),
        ("text=tide nobody", []),
        ("text=tern!42", [1, 3, 4, 5, 6]),
        ("text=test/other", [5]),
        ("text=" + "0" * 19 + "4", [4]),
        ("text=.*", []),
        ("text=%00%E2%80%AE", [1, 2, 3, 4, 5, 6]),
        ("project=7&verdict=flaky&state=done&text=mara", [4]),
        ("project=other/*&state=done", []),
    ],
)
def test_turns_are_found_by_what_they_are_and_say(site: Site, query: str, found: list[int]) -> None:
    for each in ROWS_TO_FIND:
        site.list(each)
    page = site.client.get(f"/sessions?{query}", headers=BEARER).text
    assert list_numbers(page) == found
    assert ("Show all" in page) is (len(found) < 6)
    assert ("No turn matches here." in page) is (not found)


def list_numbers(page: str) -> list[int]:
    links = [link for link in Seen(page).links if "?sig=" in link]
    return [int(link.removeprefix("sessions/")[:20], 16) for link in links]


def test_a_form_keeps_what_was_asked_for_and_a_page_of_it_too(site: Site) -> None:
    for number in range(ROWS + 2):
        site.list(turn(number))
    bad = '"><script>alert(1)</script> & tern'
    page = site.client.get("/sessions", params={"text": "tern", "verdict": "flaky"}, headers=BEARER)
    assert 'value="tern"' in page.text
    assert '<option value="flaky" selected>' in page.text
    (older,) = [link for link in Seen(page.text).links if "before=" in link]
    assert older.endswith("&verdict=flaky&text=tern")
    assert list_numbers(site.client.get(f"/sessions{older}", headers=BEARER).text) == [50, 51]
    hostile_page = site.client.get("/sessions", params={"text": bad}, headers=BEARER).text
    assert "<script>" not in hostile_page
    long = site.client.get("/sessions", params={"text": "x" * 5000}, headers=BEARER).text
    assert "x" * 101 not in long


def test_only_the_list_may_send_a_form_and_only_here(site: Site) -> None:
    policy = site.client.get("/sessions", headers=BEARER).headers["content-security-policy"]
    assert "form-action 'self'" in policy
    assert "default-src 'none'" in policy
    assert "script" not in policy


def test_dates_have_years(site: Site) -> None:
    site.list(turn(0))
    assert "2027-01-15 08:00" in site.client.get("/sessions", headers=BEARER).text


def test_running_turns_come_first_however_many_began_after_them(site: Site) -> None:
    for number in range(ROWS + 20):
        site.list(turn(number))
    hidden = replace(turn(ROWS + 30), outcome=None, verdict="")
    site.list(hidden)
    key = SessionKey(7, 42, hidden.session_id)
    site.store.claim_turn(key, 0, Claim("worker", "trigger", NOW + 60), NOW)
    page = site.client.get("/sessions", headers=BEARER).text
    assert list_numbers(page) == [ROWS + 30, *range(ROWS)]
    assert "Running now" in page
    (older,) = [link for link in Seen(page).links if "before=" in link]
    later = site.client.get(f"/sessions{older}", headers=BEARER).text
    assert "Running now" not in later
    assert list_numbers(later)[:20] == list(range(ROWS, ROWS + 20))


def test_a_search_ends_after_some_time_and_can_be_taken_up_where_it_ended(site: Site) -> None:
    for number in range(ROWS * 3):
        site.list(turn(number))
    site.list(replace(turn(ROWS * 3), subject=replace(SUBJECT, title="the needle")))
    query, ticks = Query(text="needle"), count()
    pages: list[Overview] = []
    while not pages or pages[-1].older:
        page = build_overview(
            site.store.recent_turns, site.store, NOW, query, tick=lambda: float(next(ticks))
        )
        pages.append(page)
        query = replace(query, cursor=page.older)
    assert [(len(page.rows), page.is_cut) for page in pages[:-1]] == [(0, True)] * (len(pages) - 1)
    assert len(pages) > 2
    assert [row.title for row, _ in pages[-1].rows] == ["the needle"]


def test_a_search_that_ended_early_says_how_far_it_came(site: Site) -> None:
    site.list(turn(0))
    page = Overview(Query(text="x"), older="1-2", is_cut=True, searched_to=NOW)
    text = Seen(render_page("overview", page=page, parked=[], link=lambda session: "")).text
    assert "No turn matches so far." in text
    assert "Search further back" in text
    assert "Searched back to 2027-01-15 08:00." in text


def test_a_turn_on_a_branch_names_the_branch(site: Site) -> None:
    subject = replace(
        SUBJECT,
        mr_iid=0,
        branch="main",
        web_url="https://gitlab.example/aviary/tern/-/commits/main",
    )
    before = replace(turn(1), verdict="caused by this change", subject=subject)
    site.keep(replace(before, session_id=KEY.session_id))
    for number in range(2, ROWS + 2):
        site.list(turn(number))
    answer = site.client.get("/sessions", headers=BEARER)
    seen = Seen(answer.text)
    text = " ".join(seen.text.split())
    assert "aviary/tern@main · pipeline 900 Caused by what landed" in text
    assert subject.web_url in seen.links
    found = Seen(site.client.get("/sessions?text=tern@main", headers=BEARER).text)
    assert "Caused by what landed" in found.text
    ((cursor, _),) = site.store.recent_turns.list_newest(1)
    assert "branch-main" in cursor
    rest = site.client.get(f"/sessions?before={cursor}", headers=BEARER)
    assert rest.status_code == 200
    assert "Caused by what landed" not in rest.text
