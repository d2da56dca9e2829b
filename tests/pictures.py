"""Makes the pictures of pages in `.docs/` anew: `python -m tests.pictures`; needs Chromium.

The session is a real one of the bundled case; what else the lists show is made up.
"""

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.browser import Browser, open_browser
from tests.flow.product import Product, product
from worker.conversation.context import SessionKey
from worker.jobs.verdict_days import DAY, JudgedTurn, count_day, write_day
from worker.lab import story
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


def main() -> None:
    """Make all pictures."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        product(Path(place), story.make_script(), "memory://") as made,
    ):
        made.write_settings("pages: {url: 'https://sandpiper.example'}\n")
        made.env["SANDPIPER_OPERATOR_TOKEN"] = TOKEN
        tell_story(made)
        fill_store(FolderStore(made.folder / "store"), random.Random(7), time.time())
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
        ("report", "/sessions/report?days=90", 1100, 1130, False),
        ("report-phone", "/sessions/report?days=90", 390, 1360, True),
    ):
        is_operator = "sig=" not in path
        browser.send("Network.setExtraHTTPHeaders", headers=headers if is_operator else {})
        browser.open(f"{url}{path}", width, dark=dark)
        browser.take_picture(FOLDER / f"{name}.png", height)


if __name__ == "__main__":
    main()
