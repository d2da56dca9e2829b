import time

import pytest

from worker.core.commands import MAX_TEXT, Asked, Command, Question, addressed, parse, usage

BOT = "project_501_bot_4c2e"
HELP, STOP, STATUS = Command("help"), Command("stop"), Command("status")

TEXTS: list[tuple[str, Asked | None]] = [
    ("/sandpiper analyze", Command("analyze")),
    ("/sandpiper", HELP),
    ("/sandpiper help", HELP),
    ("/Sandpiper STOP", STOP),
    ("   /sandpiper\tstatus  ", STATUS),
    ("/sandpiper model gemini/gemini-3-pro", Command("model", "gemini/gemini-3-pro")),
    ("/sandpiper forget", Command("forget")),
    ("It is red again.\r\n\r\n/sandpiper status\r\nThanks!", STATUS),
    ("/sandpiper stop\n/sandpiper status", STOP),
    ("/sandpiper dance", Command("unknown", "dance")),
    ("/sandpiper model", Command("unknown", "model")),
    ("/sandpiper model a b", Command("unknown", "model a b")),
    ("/sandpiper stop it please", Command("unknown", "stop it please")),
    ("/sandpiper-beta stop", None),
    ("/sandpipers", None),
    ("see /sandpiper stop", None),
    ("    /sandpiper stop", None),
    ("\t/sandpiper stop", None),
    ("> /sandpiper stop", None),
    ("```\n/sandpiper stop\n```", None),
    ("~~~ sh\n/sandpiper stop\n~~~~", None),
    ("````\n```\n/sandpiper stop\n````\n/sandpiper status", STATUS),
    ("```\n/sandpiper stop", None),
    ("``` x\n```", None),
    (f"@{BOT} why is it red?", Question()),
    (f"Well, @{BOT.upper()}, why?", Question()),
    (f"Ask @{BOT}.", Question()),
    (f"(@{BOT})", Question()),
    (f"@{BOT}", Question()),
    (f"@{BOT} stop", STOP),
    (f"@{BOT}: status!", STATUS),
    (f"Hello!\n@{BOT} help\nBye.", HELP),
    (f"@{BOT} model x/y", Command("model", "x/y")),
    (f"@{BOT} help me to understand this", Question()),
    (f"@{BOT} stop saying that", Question()),
    (f"please @{BOT} stop", Question()),
    (f"@{BOT}2 stop", None),
    (f"@{BOT}.old stop", None),
    (f"@{BOT}-x", None),
    (f"mail@{BOT}", None),
    (f"group/@{BOT}", None),
    (f"`@{BOT}` stop", None),
    (f"a ``b ` @{BOT}`` c", None),
    (f"` @{BOT}", Question()),
    (f"> @{BOT} said so", None),
    ("@somebody stop", None),
    ("", None),
    ("What is going on here?", None),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_a_text_asks_for_what_a_reader_would_say(text: str, expected: Asked | None) -> None:
    assert parse(text, BOT) == expected


@pytest.mark.parametrize("text", [text for text, expected in TEXTS if expected])
def test_what_is_for_us_passes_the_cheap_look(text: str) -> None:
    assert addressed(text)


def test_a_plain_comment_does_not_pass_the_cheap_look() -> None:
    assert not addressed("Looks good to me, merging when green.")


def test_nobody_mentions_a_bot_without_a_name() -> None:
    assert parse("@ stop", "") is None
    assert parse("/sandpiper stop", "") == STOP


@pytest.mark.parametrize(
    "text",
    [
        "`" * MAX_TEXT,
        " ".join("`" * length for length in range(1, 199)),
        "` `` " * 4000,
        "@" * MAX_TEXT,
        "/sandpiper " * 2000,
        ("```\n" * 5000),
        "/sandpiper " + "x" * 1_000_000,
    ],
    ids=["ticks", "lengths", "pairs", "ats", "commands", "fences", "long"],
)
def test_a_hostile_text_is_read_in_no_time(text: str) -> None:
    started = time.process_time()
    found = parse(text, BOT)
    assert time.process_time() - started < 1
    assert not isinstance(found, Command) or len(found.argument) <= 200


def test_every_command_that_is_offered_is_understood() -> None:
    for line in usage().splitlines():
        text = line.split("`")[1].replace("NAME", "x/y")
        found = parse(text, BOT)
        assert isinstance(found, Command)
        assert found.name != "unknown"
