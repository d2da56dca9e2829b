"""Makes the pictures of pages in `.docs/` anew: `python -m tests.pictures`; needs Chromium.

The session is a real one of the bundled case, the note on a red branch that of a story which the
whole product has played; what else the lists show is made up. `incident-note` after the command
makes the picture of that note alone.
"""

import random
import re
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tests.browser import Browser, open_browser
from tests.flow.product import Product, product
from tests.kept_incidents import LANDINGS, make_closed, make_failure, make_open
from tests.kept_incidents import keep as keep_branch
from tests.kept_tests import keep as keep_tests
from tests.kept_tests import make_pipeline
from tests.product_stories import CountingModel, ProductStory
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import SessionKey
from worker.conversation.messages import User
from worker.conversation.model import Reply, Request
from worker.incidents.record import NOBODY
from worker.jobs.verdict_days import DAY, JudgedTurn, count_day, write_day
from worker.lab import story
from worker.ledger.record import FailedTest, NamedTest, PipelineTests, SuiteRun
from worker.pages.texts import render_note
from worker.sessions.folder import FolderStore
from worker.sessions.layout import name_day
from worker.sessions.recent import Row, dump_row
from worker.sessions.store import Claim
from worker.verdict.aftermath import Judgement, Label
from worker.verdict.verdict import Verdict

FOLDER = Path(".docs")
TOKEN = "the-operators-token-0123"
TITLES = (
    ("northsound/ferrytimes", "Join tide windows that overlap"),
    ("platform/build-images", "Update the base image to Debian 12.9"),
    ("northsound/timetable-web", "Show boats of the next day after 22:00"),
    ("payments/ledger", "Round once per invoice, not per row"),
    ("northsound/ferrytimes", "Read tides from the new feed"),
    ("platform/build-images", "Sign images with cosign"),
    ("payments/ledger", "Draft: Resolve “Refunds are booked twice when the bank answers late”"),
    ("northsound/timetable-web", "Bump vite from 5.4.2 to 5.4.11"),
)
AUTHORS = ("mara", "jonas.weber", "li", "renovate-bot", "ola")
JOBS = ("unit-tests", "build, lint", "e2e 2/4", "deploy-review")
VERDICTS = [*Verdict, Verdict.CHANGE, Verdict.FLAKY]
REASON = "its pipeline passed when it was run again"


RED_BRANCH = """
settings: {branches: [default]}
errors:
  E: "E       AssertionError: assert [] == ['23:50']"
events:
  - {at: 0m, land: A, by: mara, files: [ferrytimes/routes.py]}
  - {at: 5m, pipeline: 1096, commit: A, jobs: {unit-tests: ok}}
  - {at: 20m, land: B, mr: 123, by: li, files: [ferrytimes/windows.py]}
  - {at: 22m, open: 131, base: B, by: ola, files: [docs/fares.md]}
  - {at: 23m, open: 140, times: 12, every: 1s, base: B, by: jonas, files: [docs/harbours.md]}
  - {at: 30m, pipeline: 1102, commit: B, jobs: {unit-tests: E}}
  - {at: 32m, open: 130, base: B, reverts: B, by: li, files: [ferrytimes/windows.py]}
  - {at: 34m, pipeline: 1110, times: 12, every: 1s, mr: 140, jobs: {unit-tests: E}}
  - {at: 40m, pipeline: 1130, mr: 130, jobs: {unit-tests: ok}}
  - {at: 48m, pipeline: 1131, mr: 131, jobs: {unit-tests: E}}
  - {at: 115m, land: C, mr: 130, by: li, reverts: B, files: [ferrytimes/windows.py]}
  - {at: 125m, pipeline: 1140, commit: C, jobs: {unit-tests: ok}}
"""
ASKING = 131
STAGES = (
    (60, "09:48, some seconds after the pipeline failed"),
    (130, "11:05, the same note"),
)
FOUND = """## Verdict
caused by this change

## Failed
unit-tests: test_night_boats

## Cause
Since `!123` tides that go on over midnight are two windows again, so the 23:50 boat is missing.

## Evidence
- job {job} line {line}: {error}

## What to do
Revert `!123`.
"""
CARD = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; padding: 36px 36px 12px; background: #fff; color: #28272d;
  font: 22px/1.45 "Noto Sans", sans-serif }
h2 { margin: 0 0 10px 68px; font-size: 20px; font-weight: normal; color: #626168 }
section { display: flex; gap: 20px; margin-bottom: 26px }
.who { flex: none; width: 48px; height: 48px; border-radius: 24px; background: #6e49cb; color: #fff;
  font-weight: bold; text-align: center; line-height: 48px }
article { flex: 1; padding: 16px 26px 6px; border: 1.5px solid #dcdcde; border-radius: 8px }
article > p, article > div > p { margin: 0 0 16px } .said { color: #626168 }
.role { float: right; padding: 0 12px; border: 1.5px solid #bfbfc3; border-radius: 14px;
  font-size: 17px; color: #626168 }
code { padding: 2px 6px; border-radius: 4px; background: #ececef;
  font: 19px "DejaVu Sans Mono", monospace }
a { color: #0b5cad; text-decoration: none } sub { font-size: 18px; vertical-align: baseline;
  color: #626168 }
</style>"""


def main() -> None:
    """Make all pictures, or that of a note on a red branch."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        draw_red_branch(Path(place))
    if "incident-note" not in sys.argv:
        draw_pages()


@dataclass
class FindingModel(CountingModel):
    """Answers with what it finds, and quotes the error that it is shown."""

    def reply(self, request: Request) -> Reply:
        told = "".join(each.text for each in request.messages if isinstance(each, User))
        shown = re.search(r"excerpt of job (\d+):\n(?: {4}.*\n)*? {4}(\d+): (E {3}.*)", told)
        assert shown, told
        job, line, error = shown.groups()
        return replace(super().reply(request), text=FOUND.format(job=job, line=line, error=error))


def draw_red_branch(place: Path) -> None:
    """Draw the note of a merge request into a red branch: as it was, and once that is green."""
    cards = [CARD]
    with GitLabSim() as sim:
        played = ProductStory(yaml.safe_load(RED_BRANCH), sim, place)
        played.model = FindingModel([])
        for until, when in STAGES:
            for minute in range(1, until + 1):
                played.deliver(played.play(f"{minute}m"))
            note = render_note(re.sub("<!--.*-->", "", played.look().notes[ASKING]))
            cards.append(
                f"<h2>{when}</h2><section><div class=who>S</div><article><p><span class=role>"
                "Developer</span><b>Sandpiper</b> <span class=said>@project_501_bot_4c2e</span></p>"
                f"{note}</article></section>"
            )
        assert len(played.model.sessions) == 1
    page = place / "note.html"
    page.write_text("\n".join(cards), "utf-8")
    with open_browser(place / "chromium") as browser:
        browser.open(page.as_uri(), 1425)
        height = browser.run("document.documentElement.getBoundingClientRect().height")
        browser.take_picture(FOLDER / "incident-note.png", round(height))


def draw_pages() -> None:
    """Draw the operators' pages and a session's."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        product(Path(place), story.make_script(), "memory://") as made,
    ):
        made.write_settings("pages: {url: 'https://sandpiper.example'}\n")
        made.env["SANDPIPER_OPERATOR_TOKEN"] = TOKEN
        tell_story(made)
        fill_store(FolderStore(made.folder / "store"), random.Random(7), time.time())
        fill_branches(FolderStore(made.folder / "store"), time.time())
        fill_tests(FolderStore(made.folder / "store"), random.Random(3), time.time())
        address = made.notes()[0].body.partition("(https://sandpiper.example")[2]
        with made.serve(), open_browser(Path(place) / "chromium") as browser:
            take_pictures(browser, made.url, address.partition(")")[0])


def tell_story(made: Product) -> None:
    """Have the failure analysed and a question answered."""
    with made.serve() as serve:
        made.pipeline_failed()
        serve.until(lambda: made.objects("context.json"), "the analysis was not stored")
        first = made.notes()[0]
        made.gitlab.comment(made.scene.mr, made.scene.author, story.QUESTION, first.discussion_id)
        serve.until(lambda: len(made.objects("context.json")) == 2, "the answer was not stored")


def fill_store(store: FolderStore, dice: random.Random, now: float) -> None:
    """Put made-up turns on the list, and verdicts of twelve weeks into the report."""
    for number in range(14):
        row = make_row(number, dice, now)
        key = SessionKey(row.project_id, row.mr_iid, row.session_id)
        store.recent_turns.put_row(key, row.turn, row.started_at, dump_row(row))
        if number == 0:
            store.claim_turn(key, row.turn, Claim("worker", "trigger", now + DAY), now)
    labels = (*[Label.CONFIRMED] * 8, Label.CONTRADICTED, *[Label.OPEN] * 7)
    for back in range(1, 85):
        rows = (make_row(at, dice, now - back * DAY) for at in range(dice.randint(6, 18)))
        turns = [
            JudgedTurn(replace(row, status="done"), Judgement(dice.choice(labels), REASON))
            for row in rows
            if row.verdict
        ]
        write_day(store.records, count_day(name_day(now - back * DAY), turns, now))


def fill_branches(store: FolderStore, now: float) -> None:
    """Put made-up red branches into the store: one red now, one green again, one a flake."""
    titles = ("Join tide windows that overlap", "Read tides from the new feed")
    landings = tuple(
        replace(each, title=title, author=who)
        for each, title, who in zip(LANDINGS, titles, AUTHORS, strict=False)
    )
    error = "E       AssertionError: assert [] == ['23:50']"
    red = make_failure(now - 2500, text=error, jobs=("unit-tests",), since_pipeline=94961)
    open_now = replace(
        make_open(now - 2500), failures=(red,), told_requests=(131, *range(140, 152))
    )
    open_now = replace(open_now, short=open_now.told_requests[:-1], cause="", to_do="")
    image = "ERROR: pull access denied for registry.example.com/base:12.9"
    drift = make_failure(
        *(now - 3 * DAY, "image"), text=image, jobs=("build", "lint"), suspect="",
        since_pipeline=94811, until_pipeline=94820,
        until_at=now - 3 * DAY + 5000, ended_by=NOBODY, landings=(),
    )  # fmt: skip
    over = replace(make_closed(now - 3 * DAY), failures=(drift,), told_requests=(118, 119, 121))
    over = replace(over, short=over.told_requests, seconds=140.0)
    mended = replace(make_closed(now - 9 * DAY, number=94402), told_requests=(97, 98))
    keep_branch(store, [mended, open_now], project="northsound/ferrytimes", landings=landings)
    keep_branch(store, [over], project_id=8, project="platform/build-images", branch="release/12")


TESTS = (
    # Place, name, job, file, owner, since how many days, how often it fails.
    ("tests.test_tides.TestWindows", "test_night_boats[23:50]", "unit-tests", "tests/test_tides.py",
     "mara", 60, 0.05),
    ("tests.test_seats", "test_seats_are_counted_once", "unit-tests", "tests/test_seats.py",
     "mara, crew/pier", 40, 0.12),
    ("e2e/booking.spec.ts", "Booking > refunds a ticket when the bank answers late", "e2e",
     "e2e/booking.spec.ts", "crew/web", 30, 0.03),
    ("com.acme.fares.InvoiceTest", "roundsOncePerInvoice(String, int)[2]", "integration",
     "fares/src/test/java/com/acme/fares/InvoiceTest.java", "", 20, 0.08),
    ("spec/models/crew_spec.rb", "Crew when it is late sends a message", "rspec",
     "spec/models/crew_spec.rb", "li", 12, 0.2),
    ("tests.test_clock", "test_summer_time", "unit-tests", "tests/test_clock.py", "mara", 4, 0.15),
)  # fmt: skip


def fill_tests(store: FolderStore, dice: random.Random, now: float) -> None:
    """Put made-up tests into the store: eight pipelines a day, in which some fail for a while."""
    runs = list[PipelineTests]()
    for number in range(2, 2 * 8 * 59, 2):
        back = 59 - number / 16
        failed = [
            FailedTest(NamedTest(job, place, name), job, "AssertionError", file=file)
            for place, name, job, file, _, since, often in TESTS
            if back < since and dice.random() < often
        ]
        suites = tuple(
            SuiteRun(job, 214, sum(each.job == job for each in failed), 0, number, 1, seconds=240.0)
            for job in sorted({each[2] for each in TESTS})
        )
        request = dice.choice([0, 0, dice.randrange(100, 160)])
        made = make_pipeline(94000 + number, now - back * DAY, *failed, mr=request)
        runs.append(replace(made, suites=suites))
        if failed and dice.random() < 0.75:
            again = make_pipeline(94001 + number, made.created_at + 900, mr=request, sha=made.sha)
            passed = tuple(replace(each, failed=0) for each in suites)
            runs.append(replace(again, suites=passed))
    owners = tuple((each[3], each[4]) for each in TESTS)
    keep_tests(store, runs, project="northsound/ferrytimes", owners=owners)


def make_row(number: int, dice: random.Random, now: float) -> Row:
    """Make up a turn."""
    project, title = TITLES[number % len(TITLES)]
    is_made_by_rule = dice.random() < 0.2
    row = Row(
        session_id=f"{number + 17:020x}",
        project_id=7 + number % len(TITLES),
        project=project,
        mr_iid=300 - number,
        web_url=f"https://gitlab.example/{project}/-/merge_requests/{300 - number}",
        pipeline_id=94975 - 7 * number,
        turn=int(number % 6 == 4),
        started_at=now - 60 - number * 1500 - dice.random() * 800,
        status="running" if number == 0 else "done",
        verdict="" if number == 0 else str(dice.choice(VERDICTS)),
        model="" if is_made_by_rule else "anthropic/claude-sonnet-5-5",
        iterations=0 if is_made_by_rule else dice.randint(2, 14),
        cost_usd=0.0 if is_made_by_rule else 0.03 + dice.random() * 0.3,
        seconds=0.0 if number == 0 else 3.0 if is_made_by_rule else 20 + dice.random() * 150,
        jobs=dice.choice(JOBS),
        title=title,
        author=AUTHORS[number % len(AUTHORS)],
        cause="The clock of the runner is late.",
        dry_run=number == 3,
        given_up=number == 9,
    )
    return replace(row, verdict="", status="failed", seconds=0.0) if row.given_up else row


def take_pictures(browser: Browser, url: str, address: str) -> None:
    """Open each page, and write its upper part."""
    browser.send("Network.enable")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for name, path, width, height, dark in (
        ("session-desktop", address, 1100, 1180, False),
        ("session-phone", address, 390, 1360, True),
        ("overview", "/sessions", 1100, 1160, False),
        ("incidents", "/incidents", 1100, 700, False),
        ("tests", "/tests", 1100, 950, False),
        ("report", "/sessions/report?days=90", 1100, 1130, False),
        ("report-phone", "/sessions/report?days=90", 390, 1360, True),
    ):
        is_operator = "sig=" not in path
        browser.send("Network.setExtraHTTPHeaders", headers=headers if is_operator else {})
        browser.open(f"{url}{path}", width, dark=dark)
        browser.take_picture(FOLDER / f"{name}.png", height)


if __name__ == "__main__":
    main()
