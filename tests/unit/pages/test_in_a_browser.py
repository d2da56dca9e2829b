"""The pages as a browser shows them: no line is cut, every text can be read, keys are enough."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, Browser, open_browser
from tests.contexts import SUBJECT
from tests.kept_incidents import HOUR, LANDINGS, keep, make_closed, make_failure, make_open
from tests.kept_tests import keep as keep_tests
from tests.kept_tests import make_failed, make_pipeline, make_story
from tests.unit.pages.pages import KEY, NOW, TOKEN, Site, hostile
from tests.unit.pages.test_overview import ROWS_TO_FIND
from tests.unit.pages.test_report_page import count
from tests.unit.pages.test_report_page import turn as judge
from tests.unit.pages.test_session_page import told
from worker.conversation.context import Context
from worker.conversation.messages import Assistant, ToolResult
from worker.jobs.verdict_days import DAY
from worker.sessions.store import Claim
from worker.verdict.aftermath import Label

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

LONG = "no_space_in_it_" * 40
PAGES = ("session", "hostile", "overview", "report", "incidents", "tests", "life", "nothing")
PHONE, DESKTOP, PAPER = 390, 1280, 718

READ_CONTRAST = """(() => {
  const parse = text => text.match(/[0-9.]+/g).map(Number);
  const light = rgb => rgb.slice(0, 3).map(part => part / 255).map(
    part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4
  ).reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const rgb = parse(getComputedStyle(node).backgroundColor);
      if (rgb.length < 4 || rgb[3] > 0) return rgb;
    }
  };
  const low = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("svg,option")) continue;
    const one = light(parse(getComputedStyle(element).color)), other = light(ground(element));
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    seen += 1;
    if (ratio < 4.5) low.push([element.outerHTML.slice(0, 80), ratio]);
  }
  return {seen, low};
})()"""
READ_FOCUS = """(() => {
  const style = getComputedStyle(document.activeElement);
  return [document.activeElement.outerHTML.slice(0, 60),
    style.outlineStyle != "none" && parseFloat(style.outlineWidth) >= 2];
})()"""
COUNT_STOPS = """[...document.querySelectorAll(
    "a[href],summary,input,select,button,[tabindex='0']"
  )].filter(each => each.checkVisibility()).length"""
LIST_CUT = """[...document.querySelectorAll("main *")].filter(each =>
  !each.closest(".unseen,.gist,svg") && getComputedStyle(each).overflow != "visible"
  && (each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1)
).map(each => each.outerHTML.slice(0, 80))"""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The address of each page, as a file."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_page(name, folder).as_uri() for name in PAGES}


def write_page(name: str, folder: Path) -> Path:
    site = Site(folder / f"{name}-store")
    if name in ("session", "hostile"):
        site.keep(make_session() if name == "session" else hostile())
    elif name == "overview":
        site.parked = [f"trigger: {LONG}"]
        for row in ROWS_TO_FIND:
            site.list(row)
        site.list(replace(make_session(), turn=3))
        site.list(running := replace(told(), outcome=None, session_id="9" * 20))
        site.store.claim_turn(
            replace(KEY, session_id=running.session_id), 0, Claim("w", "t", NOW + 60), NOW
        )
    elif name == "report":
        labels = (Label.CONFIRMED, Label.CONTRADICTED, Label.OPEN)
        count(site, *(judge(at, labels[at % 3], jobs=LONG, cause=LONG) for at in range(12)))
    elif name == "incidents":
        long = make_failure(NOW - HOUR, text=LONG, jobs=(LONG, LONG))
        mended = replace(LANDINGS[1], title="Read the times of boats from the new feed")
        found = [make_closed(NOW - DAY), replace(make_open(NOW), failures=(long,))]
        keep(site.store, found, landings=(LANDINGS[0], mended))
    elif name in ("tests", "life"):
        test = make_failed(LONG, job=LONG, text=LONG)
        runs = [*make_story(NOW), make_pipeline(900, NOW - DAY, test, job=LONG)]
        keep_tests(site.store, runs, owners=(("tests/test_ferry.py", LONG[:200]),))
    paths = {
        "overview": "sessions",
        "report": "sessions/report",
        "incidents": "incidents",
        "tests": "tests",
        "life": "tests",
        "nothing": "sessions/nothing",
    }
    queries = {"tests": {"order": "newest"}, "life": {"test": "_"}}
    address = f"/{paths.get(name, f'sessions/{KEY.session_id}')}"
    answer = site.client.get(
        address,
        params=queries.get(name, {"sig": site.sign()}),
        headers={"authorization": f"Bearer {TOKEN}"},
    )
    assert answer.status_code == (404 if name == "nothing" else 200)
    page = folder / f"{name}.html"
    page.write_text(answer.text)
    return page


def make_session() -> Context:
    """A turn with long lines in every place."""
    turn = told()
    result = ToolResult("c1", "look", f'{{"result": "{LONG}", "lines": "{"x y" * 3000}"}}')
    messages = (turn.messages[0], result, Assistant(f"**So:** `{LONG}`\n\n```\n{LONG}\n```"))
    return replace(
        turn,
        messages=messages,
        losses=(LONG,),
        note_text=f"**{LONG}**\n\n`{LONG}`\n\n| a | b |\n|---|---|\n| {LONG} | x |\n\n"
        f"<details>\n<summary>More</summary>\n\n{LONG}\n\n</details>",
        subject=replace(SUBJECT, title=LONG[:200], author="mara"),
    )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_no_page_is_wider_than_its_window(
    browser: Browser, pages: dict[str, str], name: str, width: int
) -> None:
    browser.open(pages[name], width)
    browser.run(OPEN_ALL)
    assert browser.run("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["overview", "incidents", "tests"])
def test_no_text_of_a_list_leaves_its_cell(
    browser: Browser, pages: dict[str, str], name: str
) -> None:
    browser.open(pages[name], 1100)
    cells = "[...document.querySelectorAll('.list td, .list tbody th')]"
    outside = f"{cells}.filter(each => each.scrollWidth > each.clientWidth + 1)"
    assert browser.run(f"{cells}.length") >= 6
    assert browser.run(f"{outside}.map(each => each.textContent.slice(0, 60))") == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read(
    browser: Browser, pages: dict[str, str], name: str, dark: bool
) -> None:
    browser.open(pages[name], DESKTOP, dark=dark)
    browser.run(OPEN_ALL)
    found = browser.run(READ_CONTRAST)
    assert found["seen"] >= 3
    assert found["low"] == []


@pytest.mark.parametrize("name", PAGES)
def test_keys_alone_reach_everything_and_show_where_one_is(
    browser: Browser, pages: dict[str, str], name: str
) -> None:
    browser.open(pages[name], DESKTOP)
    stops = browser.run(COUNT_STOPS)
    seen = []
    for _ in range(stops):
        browser.press("Tab")
        place, is_shown = browser.run(READ_FOCUS)
        assert is_shown, place
        seen.append(place)
    assert 'class="skip"' in seen[0]
    assert "<body" not in "".join(seen)
    assert stops >= {"nothing": 1, "report": 5}.get(name, 6)


def test_the_skip_link_leads_past_the_head_of_the_page(
    browser: Browser, pages: dict[str, str]
) -> None:
    browser.open(pages["overview"], DESKTOP)
    browser.press("Tab")
    browser.press("Enter")
    browser.press("Tab")
    assert browser.run("!!document.activeElement.closest('main')")


def test_folds_are_opened_by_enter(browser: Browser, pages: dict[str, str]) -> None:
    browser.open(pages["session"], DESKTOP)
    for fold in (".note details", ".steps details", ".technical"):
        browser.run(f"document.querySelector('{fold} > summary').focus()")
        browser.press("Enter")
        assert browser.run(f"document.querySelector('{fold}').open")


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_folds_are_open_and_no_line_is_cut(
    browser: Browser, pages: dict[str, str], name: str
) -> None:
    browser.open(pages[name], PAPER, dark=True, media="print")
    assert browser.run("document.scrollingElement.scrollWidth") <= PAPER
    assert browser.run(LIST_CUT) == []
    hidden = "[...document.querySelectorAll('details > :not(summary)')]"
    assert browser.run(f"{hidden}.filter(each => !each.checkVisibility()).length") == 0
    heights = f"{hidden}.filter(each => each.textContent.trim() && !each.offsetHeight).length"
    assert browser.run(heights) == 0
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
