"""What a session's page shows, and to whom."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contexts import SUBJECT, call, context
from tests.unit.pages.pages import (
    ATTRIBUTES,
    HOSTILE,
    KEY,
    NOW,
    OTHER,
    TAGS,
    TOKEN,
    Seen,
    Site,
    hostile,
)
from worker.conversation import context_json
from worker.conversation.context import GIVEN_UP, CallCost, Context, Outcome, Status
from worker.conversation.folds import Fold, FoldKind
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, ToolResult, Usage, User
from worker.conversation.prompts import write_continuation
from worker.conversation.tiers import ReplyModel
from worker.pages import view
from worker.pages.sign_in import Signer
from worker.pages.texts import CharacterBudget, split_fields
from worker.sessions.store import Claim
from worker.verdict.aftermath import DOWN, UP, Feedback, dump_feedback


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def get(site: Site, session: str = KEY.session_id, sig: str | None = None) -> str:
    answer = site.client.get(f"/sessions/{session}", params={"sig": sig or site.sign(session)})
    assert answer.status_code == 200
    return answer.text


def told(turn: int = 0) -> Context:
    """A plain turn of one look and an answer."""
    return replace(
        context(
            *(Assistant("I look.", (call(arguments='{"path": "a.py"}'),)),),
            *(ToolResult("c1", "look", '{"result": "seen"}'), Assistant("It is the change.")),
            turn_usage=TurnUsage(NOW - 60, iterations=2, context_tokens=1000, cost_usd=0.5),
        ),
        turn=turn,
        outcome=Outcome(Status.DONE, "It is the change."),
        calls=(
            CallCost(turn, "test/model", Usage(10, 20, 30, 4), 0.2, NOW - 50, 3.0, 0),
            CallCost(turn, "test/model", Usage(5, 60, 0, 4), 0.3, NOW - 40, 4.0, 2),
        ),
        verdict="caused by this change",
        note_text="**Caused by this change**\n\n<sub>small</sub>",
        seconds=20.0,
    )


def test_hostile_texts_are_shown_as_texts(site: Site) -> None:
    site.keep(hostile(), hostile(1), files={"data/<b>.txt": b""})
    page = get(site)
    seen = Seen(page)
    assert seen.tags <= TAGS
    assert seen.attributes <= ATTRIBUTES
    assert not [
        link for link in seen.links if not link.startswith(("https://", "#", KEY.session_id))
    ]
    assert "<script>alert(1)</script>" in seen.text
    assert not set(page) & set("\u202e\u2066\x00\x1b")
    assert "{{ 7*7 }}" in seen.text
    assert page.count("<details") == page.count("</details>")
    assert page.count("<style>") == 1


def test_a_huge_session_is_cut_to_a_page(site: Site) -> None:
    huge = hostile(size=60)
    many = tuple(each for _ in range(60) for each in huge.messages)
    site.keep(replace(huge, messages=many, losses=(), note_text=HOSTILE * 2000))
    page = get(site)
    assert len(site.store.read_context(KEY, 0)) > 8_000_000
    assert len(page) < 9_000_000
    assert "more characters are not shown" in page
    assert "longer than a page" in page


def test_it_names_who_answered_a_reply_and_why_that_was_not_all(site: Site) -> None:
    asked = replace(told(1).calls[1], model="t/reply", tier="reply", reasoning="low")
    by = ReplyModel("t/reply", "low", end_reason="it called a tool")
    site.keep(told(), replace(told(1), reply_by=by, calls=(*told(1).calls, asked)))
    text = " ".join(Seen(get(site)).text.split())
    assert "t/reply; not to its end: it called a tool" in text
    assert "reply, low: reply" in text


def test_a_page_may_load_and_run_nothing(site: Site) -> None:
    site.keep(told())
    answer = site.client.get(f"/sessions/{KEY.session_id}", params={"sig": site.sign()})
    policy = answer.headers["content-security-policy"]
    wanted = ("default-src 'none'", "img-src 'none'", "frame-ancestors 'none'", "base-uri 'none'")
    assert all(each in policy for each in (*wanted, "form-action 'none'", "style-src 'sha256-"))
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_timeline_says_what_was_asked_came_back_and_took(site: Site) -> None:
    site.keep(told())
    text = " ".join(Seen(get(site)).text.split())
    for part in (
        *("aviary/tern!42", "Caused by this change", "2 of 50", "thought 3.0 s", "tools 7.0 s"),
        *("I look.", "look", "path", "a.py", "seen", "It is the change.", "$0.50 of $2.00"),
    ):
        assert part in text


def named() -> Context:
    return replace(told(), subject=replace(SUBJECT, title="Count the tides", author="mara"))


def test_a_developer_reads_the_finding_first_and_what_it_cost_last(site: Site) -> None:
    site.keep(named())
    page = get(site)
    text = " ".join(Seen(page).text.split())
    order = (
        *("Count the tides by mara", "Caused by this change answered", "small"),
        *("What was looked at", "I look.", "Tokens, cost and technical details", "$0.50 of"),
    )
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    before, _, after = page.partition('<details class="technical">')
    assert "$" not in before.partition("<body>")[2]
    assert "test/model" not in before
    assert "analyze-failures" in after


def test_a_session_of_an_older_version_is_named_by_its_number(site: Site) -> None:
    site.keep(told())
    assert "<h1>aviary/tern!42</h1>" in get(site)


@pytest.mark.parametrize(
    ("changes", "pills"),
    [
        ({}, ["answered"]),
        ({"outcome": Outcome(Status.PARTIAL, "x")}, ["partial"]),
        ({"outcome": Outcome(Status.FAILED, "")}, ["failed"]),
        ({"outcome": Outcome(Status.FAILED, "", f"{GIVEN_UP}2 workers died")}, ["given up"]),
        ({"dry_turns": (0,)}, ["answered", "dry run"]),
        ({"outcome": None}, ["interrupted"]),
    ],
)
def test_the_state_of_a_turn_stands_beside_its_verdict(
    site: Site, changes: dict[str, Any], pills: list[str]
) -> None:
    turn = replace(told(), **changes)
    if turn.outcome:
        site.keep(turn)
    else:
        site.store.claim_turn(KEY, 0, Claim("worker", "trigger", NOW - 1), NOW - 60)
        site.store.write_checkpoint(KEY, 0, context_json.dump_context(turn))
    assert re.findall(r'<span class="state [a-z-]+">([^<]*)</span>', get(site)) == pills


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("**Flaky** by `clock`", "<strong>Flaky</strong> by <code>clock</code>"),
        ("- a\n- b", "<li>a</li>\n<li>b</li>"),
        ('{"verdict": {"is": "flaky"}}', "&#34;verdict&#34;: {\n    &#34;is&#34;: &#34;flaky&#34;"),
        ("[here](https://evil.example)", "[here](https://evil.example)"),
        ("<https://evil.example>", "&lt;https://evil.example&gt;"),
        ("![i](https://evil.example/i.png)", "![i](https://evil.example/i.png)"),
        ("[here][1]\n\n[1]: https://evil.example", "[1]: https://evil.example"),
        ("<details><b>x</b></details>", "&lt;details&gt;&lt;b&gt;x&lt;/b&gt;"),
    ],
)
def test_what_the_model_wrote_is_rendered_without_its_links(
    site: Site, answer: str, shown: str
) -> None:
    site.keep(replace(told(), messages=(Assistant(answer),)))
    page = get(site)
    assert shown in page
    assert not [link for link in Seen(page).links if "evil" in link]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ('{"result": "{\\"a\\": {\\"b\\": 1}}"}', '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('[{"id": 5}]', '[\n  {\n    "id": 5\n  }\n]'),
        ('{"a": 1}\n{"b": 2}\nthe rest', '{\n  "a": 1\n}\n{\n  "b": 2\n}\nthe rest'),
        ("[not json", "[not json"),
        ("[" * 5000, "[[[["),
        ("[" * 900 + "]" * 900, "[" * 900 + "]" * 900),
    ],
)
def test_json_is_indented_wherever_it_came_from(site: Site, result: str, shown: str) -> None:
    messages = (Assistant("", (call(),)), ToolResult("c1", "look", result))
    site.keep(replace(told(), messages=messages))
    assert shown in Seen(get(site)).text


def test_long_lists_of_arguments_have_a_short_summary() -> None:
    arguments = (
        '{"requests": [{"source": "job_log", "arguments": {"job_id": 5}, "path": "/tmp/a"}]}'
    )
    assert split_fields(arguments, CharacterBudget()).summary == "job_log 5 /tmp/a"


def test_the_way_back_leads_operators_to_the_list_and_others_to_the_merge_request(
    site: Site,
) -> None:
    site.keep(named())
    for headers, is_there in (({}, False), ({"authorization": f"Bearer {TOKEN}"}, True)):
        address = f"/sessions/{KEY.session_id}?sig={site.sign()}"
        links = Seen(site.client.get(address, headers=headers).text).links
        assert ("../sessions" in links) is is_there
        assert SUBJECT.web_url in links


def test_an_answer_that_could_not_be_used_has_its_place() -> None:
    usage = Usage(10)
    calls = (CallCost(0, "m", usage, 0.1, 1.0, 1.0, -1), CallCost(0, "m", usage, 0.1, 3.0, 1.0, 0))
    stored = view.StoredTurn(context(Assistant("x"), calls=calls))
    steps = view.build_page([stored], Limits()).turns[0].steps
    assert [(step.number, bool(step.note), step.time) for step in steps] == [
        (1, True, "00:00:01"),
        (2, False, "00:00:03"),
    ]


def test_calls_of_an_older_version_stand_with_their_answers() -> None:
    old = (CallCost(0, "m", Usage(11), 0.1), CallCost(0, "m", Usage(22), 0.1))
    stored = view.StoredTurn(replace(told(), calls=old))
    steps = view.build_page([stored], Limits()).turns[0].steps
    assert [(step.number, step.note, step.time) for step in steps] == [(1, "", ""), (2, "", "")]


def test_a_running_turn_is_shown_as_far_as_it_has_come(site: Site) -> None:
    running = replace(told(), outcome=None, note_text="", verdict="")
    site.store.claim_turn(KEY, 0, Claim("worker", "trigger", NOW + 60), NOW)
    site.store.write_checkpoint(KEY, 0, context_json.dump_context(running))
    text = Seen(get(site)).text
    assert "running" in text
    assert "I look." in text


def test_a_deleted_session_shows_what_stands_for_it(site: Site) -> None:
    emptied = replace(
        told(1), messages=(), outcome=Outcome(Status.FAILED, "", "deleted on request")
    )
    site.keep(told(), emptied)
    site.store.erase_session(KEY, 1)
    text = Seen(get(site)).text
    assert "deleted on request" in text
    assert "I look." not in text


def test_the_note_on_the_page_carries_no_signature(site: Site) -> None:
    link = f"[Session](https://s.example/sessions/{KEY.session_id}?sig=1.{'a' * 64})"
    site.keep(replace(told(), note_text=f"text <sub>{link}</sub>"))
    assert "a" * 64 not in get(site)


@pytest.mark.parametrize(
    ("session", "signature"),
    [
        (KEY.session_id, ""),
        (KEY.session_id, "1"),
        (KEY.session_id, f"{int(NOW) + 60}.{'0' * 64}"),
        (KEY.session_id, "expired"),
        (KEY.session_id, "prolonged"),
        (KEY.session_id, "another session's"),
        (KEY.session_id, "another key's"),
        (KEY.session_id[:10], "its own"),
        (OTHER, "its own"),
        ("..%2f..%2fetc", "its own"),
    ],
)
def test_without_its_own_signature_a_page_is_not_there(
    site: Site, session: str, signature: str
) -> None:
    site.keep(told())
    until = int(NOW) + 60
    mac = site.sign().partition(".")[2]
    made = {
        "expired": site.sign(seconds=-1),
        "prolonged": f"{until + 1}.{mac}",
        "another session's": site.sign(OTHER),
        "another key's": Signer("another-secret-entirely").sign(KEY.session_id, until),
        "its own": site.sign(session),
    }.get(signature, signature)
    answer = site.client.get(f"/sessions/{session}", params={"sig": made})
    nothing = site.client.get(f"/sessions/{'0' * 20}", params={"sig": "x"})
    assert (answer.status_code, answer.text) in [(404, nothing.text), (404, "Not Found")]
    if signature != "its own":
        assert site.opened == 0


def test_votes_and_what_became_of_the_pipeline_stand_with_their_turn(site: Site) -> None:
    site.keep(told(), told(1))
    votes = Feedback({"a": UP, "b": DOWN, "c": UP})
    site.store.change_feedback(KEY, 0, lambda _: dump_feedback(votes))
    site.store.write_aftermath(
        KEY, 0, b'{"became": "fixed", "pipeline_id": 72, "sha": "9f8e7d6c5b"}'
    )
    site.store.write_aftermath(KEY, 1, b'{"became": "<b>", "sha": "9f8e7d6c5b"}')
    text = Seen(get(site)).text
    assert "reactions: 2 👍, 1 👎; pipeline 72: fixed by a later commit (9f8e7d6c)" in text
    assert text.count("Afterwards") == 1


def test_a_turn_of_endless_steps_is_cut_and_says_so() -> None:
    answers = tuple(Assistant("x") for _ in range(view.MAX_STEPS + 5))
    steps = view.build_page([view.StoredTurn(context(*answers))], Limits()).turns[0].steps
    assert len(steps) == view.MAX_STEPS + 1
    assert steps[-1].note == "What came after is not shown."


def test_a_reply_begins_with_what_was_asked() -> None:
    question = "See test_sum(a, b)\n\nIs it the runner?"
    asked = write_continuation(question, files="None.", seconds=9.0, changes=())
    reply = replace(context(User(asked), Assistant("No.")), turn=1, turn_start=0)
    steps = view.build_page([view.StoredTurn(reply)], Limits()).turns[0].steps
    ours = [(step.title, step.ours.content) for step in steps if step.ours]
    assert ours[0] == ("", question)
    assert ours[1][0] == "Told"
    assert ours[1][1].startswith("(This is a follow-up in the same session")
    assert len(ours) == 2


def test_a_fold_stands_where_it_was_made_and_says_what_it_hid() -> None:
    folds = (
        Fold(FoldKind.PRUNE, 1, 3, made_at=3),
        Fold(FoldKind.SUMMARY, 1, 3, made_at=3, text="What was found: <b>"),
    )
    messages = (User("event"), Assistant("hm", (call(),)), ToolResult("c1", "look", "x"))
    helped = CallCost(0, "h", Usage(5), 0.1, 1.0, 1.0, task="summary")
    folded = context(*messages, Assistant("so"), folds=folds, calls=(helped,))
    steps = view.build_page([view.StoredTurn(folded)], Limits()).turns[0].steps
    assert [step.title for step in steps if step.title] == ["Folded (prune)", "Folded (summary)"]
    told = [step.ours.content for step in steps if step.title and step.ours]
    assert "messages 2 to 3" in told[0]
    assert told[1] == "What was found: <b>"
    assert "A helper was asked: summary." in [step.note for step in steps]
    # What is folded is still shown.
    assert [step.text.content for step in steps if step.text] == ["hm", "so"]


@pytest.mark.parametrize(
    ("turn", "look", "title"),
    [(0, 0, "Analysis"), (1, 0, "Reply 1"), (2, 2, "Analysis of pipeline 900")],
)
def test_a_turn_is_named_by_what_it_was_for(turn: int, look: int, title: str) -> None:
    stored = view.StoredTurn(replace(told(turn), look=look))
    assert view.build_page([stored], Limits()).turns[0].title == title


def test_the_page_of_a_branchs_session_says_so(site: Site) -> None:
    subject = replace(
        SUBJECT,
        mr_iid=0,
        branch="release/<b>1",
        web_url="https://gitlab.example/aviary/tern/-/commits/release/1",
    )
    done = replace(told(), subject=subject, verdict="caused by this change", note_text="**Note**")
    site.keep(done)
    seen = Seen(get(site))
    text = " ".join(seen.text.split())
    assert "Branch release/<b>1 of aviary/tern" in text
    assert "aviary/tern@release/<b>1" in text
    assert "Caused by what landed" in text
    assert "nothing was posted" in text
    assert subject.web_url in seen.links
    assert "https://gitlab.example/aviary/tern/-/pipelines/900" in seen.links
    assert "!0" not in text
