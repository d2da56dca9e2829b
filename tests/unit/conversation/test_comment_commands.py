import time

import pytest

from worker.conversation.comment_commands import (
    MAX_TEXT,
    Command,
    CommentRequest,
    Question,
    list_commands,
    may_address_bot,
    parse_comment,
)

BOT = "project_501_bot_4c2e"
HELP, STOP, STATUS = Command("help"), Command("stop"), Command("status")

TEXTS: list[tuple[str, CommentRequest | None]] = [
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
    ("/sandpiper model", Command("model")),
    ("/sandpiper model list", Command("model", "list")),
    ("/sandpiper model smart openai/gpt-6-sol", Command("model", "smart openai/gpt-6-sol")),
    ("/sandpiper model smart reasoning high", Command("model", "smart reasoning high")),
    ("/sandpiper model smart reset project", Command("model", "smart reset project")),
    ("/sandpiper tier", Command("tier")),
    ("/sandpiper tier Deep force project", Command("tier", "Deep force project")),
    ("/sandpiper tier reset", Command("tier", "reset")),
    ("/sandpiper tier bogus", Command("tier", "bogus")),
    ("/sandpiper tier smart please", Command("unknown", "tier smart please")),
    (f"@{BOT} tier smart force", Command("tier", "smart force")),
    (f"@{BOT} tier list is wrong", Question()),
    (f"@{BOT} tier names?", Question()),
    ("/sandpiper model a b", Command("unknown", "model a b")),
    ("/sandpiper stop it please", Command("unknown", "stop it please")),
    ("/sandpiper-beta stop", None),
    ("/sandpipers", None),
    ("see /sandpiper stop", None),
    (f"Tell \\@{BOT} nothing", None),
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
def test_a_text_asks_for_what_a_reader_would_say(
    text: str, expected: CommentRequest | None
) -> None:
    assert parse_comment(text, BOT) == expected


QUOTED = [
    "> quoted\n/sandpiper stop",
    "> - quoted\nlazy\n/sandpiper stop",
    "- item\n/sandpiper stop",
    "- item\n\n  /sandpiper stop",
    "1. ```\n   x\n   ```\n   /sandpiper stop",
    "- ```\n  /sandpiper stop\n  ```",
    ">>>\n/sandpiper stop\n>>>",
    "He wrote:\n>>>\nHello\n\n/sandpiper stop\n\nBye\n>>>\nand I don't.",
    ">>>\n- item\n\n/sandpiper stop",
    ">>>>\n>>>\n/sandpiper stop\n>>>\n>>>>",
    "   >>>  \n/sandpiper stop",
    "<blockquote>\n/sandpiper stop\n</blockquote>",
    "<blockquote>\n\n/sandpiper stop\n\n</blockquote>",
    "<BLOCKQUOTE>\n\n</div>\n\n/sandpiper stop",
    "<blockquote>\n\n<!-- </blockquote> -->\n\n/sandpiper stop",
    "<blockquote>\n\n<x title='</blockquote>'>\n\n/sandpiper stop",
    "<blockquote>\n\n<script></blockquote></script>\n\n/sandpiper stop",
    "<!--><blockquote>\n\n/sandpiper stop",
    "see <blockquote>\n/sandpiper stop</blockquote>",
    "see <blockquote>\n\n/sandpiper stop",
    "# head <s>\n\n/sandpiper stop",
    '<div title="\n\n/sandpiper stop\n\n">',
    "<pre>\n/sandpiper stop\n</pre>",
    "<pre>\n\n/sandpiper stop\n\n</pre>",
    "<div><pre>\n\n/sandpiper stop",
    "<details>\n<summary>log</summary>\n\n/sandpiper stop\n\n</details>",
    "<details><summary>log</summary>\n\n/sandpiper stop",
    "<!--\n/sandpiper stop\n-->",
    "<!--\n\n/sandpiper stop\n\n-->",
    "text <!--\n/sandpiper stop\n-->",
    "<script>\n/sandpiper stop\n</script>",
    "<textarea>\n\n/sandpiper stop",
    "<div>\n/sandpiper stop\n</div>",
    "<s>\n\n/sandpiper stop\n\n</s>",
    "~~/sandpiper stop~~",
    "**/sandpiper stop**",
    "`code\n/sandpiper stop\ncode`",
    "\\/sandpiper stop",
    "&#47;sandpiper stop",
    "# /sandpiper stop",
    "/sandpiper stop\n---",
    "| a |\n|---|\n/sandpiper stop",
    "| a |\n|---|\n| b |\n/sandpiper stop",
    "---\ntitle: x\n/sandpiper stop\n---",
    "~~a\n/sandpiper stop\nb~~",
    "[^1]: hidden\n    more\n/sandpiper stop",
    "[^1]: hidden\n/sandpiper stop",
    "$$\n/sandpiper stop\n$$",
    "[x]: <y> '\n/sandpiper stop\n'",
    "![a\n/sandpiper stop\n](x)",
    "[a\n/sandpiper stop\n](x)",
    "<a title='\n/sandpiper stop\n'>",
]


@pytest.mark.attack("commands")
@pytest.mark.parametrize("form", ["{}", "Look:\n\n{}", "{}\n\nThanks!"])
@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_or_hidden_asks_for_nothing(text: str, form: str) -> None:
    for said in (text, text.replace("/sandpiper", f"@{BOT}")):
        if "stop\n---" not in said:  # a heading only where nothing follows it
            assert not isinstance(parse_comment(form.format(said), BOT), Command)


@pytest.mark.attack("commands")
@pytest.mark.parametrize(
    "text",
    [
        "---\n\n/sandpiper stop\n\n---\ntext",
        "+++\n/sandpiper stop\n+++",
        ";;; x\n\n/sandpiper stop\n;;;",
    ],
)
def test_front_matter_asks_for_nothing(text: str) -> None:
    assert parse_comment(text, BOT) is None


@pytest.mark.parametrize(
    "before",
    [
        "",
        "Hello,\nplease:\n",
        "> quoted\n\n",
        ">>>\nquoted\n>>>\n",
        "- a\n- b\n\nThen:\n",
        "```\ncode\n```\n",
        "<details><summary>log</summary>\n\nx\n\n</details>\n\n",
        "<!-- sandpiper -->\n\n",
        "It is `std::vector<string>`, or vector<string> by another name.\n\n",
        "| a |\n|---|\n| b |\n\n",
        "Title\n---\n",
        "[x]: https://example.com\n\n",
        "a <br>\n",
        "a <b>bold</b> word<sup>1</sup>\n",
    ],
)
@pytest.mark.parametrize("command", ["/sandpiper status", f"@{BOT} status"])
def test_a_command_in_a_paragraph_is_heard_after_anything(before: str, command: str) -> None:
    assert parse_comment(f"{before}{command}\nThanks!", BOT) == STATUS
    assert parse_comment(f"{before}{command}", BOT) == STATUS


@pytest.mark.parametrize("text", [text for text, expected in TEXTS if expected])
def test_what_is_for_us_passes_the_cheap_look(text: str) -> None:
    assert may_address_bot(text)


def test_a_plain_comment_does_not_pass_the_cheap_look() -> None:
    assert not may_address_bot("Looks good to me, merging when green.")


def test_nobody_mentions_a_bot_without_a_name() -> None:
    assert parse_comment("@ stop", "") is None
    assert parse_comment("/sandpiper stop", "") == STOP


@pytest.mark.slow
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
        "<!--" * 5000,
        "<div>\n" + "<script " * 2500,
        "<div>\n" + "<x '" * 5000,
        "> " * 10_000,
        "- " * 10_000,
        "[" * MAX_TEXT,
        "*a_" * 6000,
        "---\n" + "--\n" * 6000,
        ">>>\n" * 5000,
    ],
    ids=[
        *("ticks", "lengths", "pairs", "ats", "commands", "fences", "long", "comments", "scripts"),
        *("quotes in tags", "quotes", "lists", "brackets", "emphasis", "front matter", "fences >"),
    ],
)
def test_a_hostile_text_is_read_in_no_time(text: str) -> None:
    started = time.process_time()
    found = parse_comment(text, BOT)
    assert time.process_time() - started < 1
    assert not isinstance(found, Command) or len(found.argument) <= 200


def test_every_command_that_is_offered_is_understood() -> None:
    for line in list_commands().splitlines():
        text = line.split("`")[1].replace("NAME", "x/y")
        found = parse_comment(text, BOT)
        assert isinstance(found, Command)
        assert found.name != "unknown"


def test_commands_of_workflows_are_heard_and_listed_after_ours() -> None:
    more = {"explain": "say it simply", "analyze": "ours"}
    assert parse_comment("/sandpiper Explain", "bot", more) == Command("explain")
    assert parse_comment("@bot explain!", "bot", more) == Command("explain")
    assert parse_comment("/sandpiper explain", "bot") == Command("unknown", "explain")
    assert parse_comment("/sandpiper explain why", "bot", more) == Command("unknown", "explain why")
    assert parse_comment("@bot explain why", "bot", more) == Question()
    assert list_commands(more) == f"{list_commands()}\n- `/sandpiper explain`: say it simply"
