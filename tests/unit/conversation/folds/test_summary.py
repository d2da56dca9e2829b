import json

from tests.contexts import call
from worker.conversation.folds import (
    MOST_BYTES,
    TITLES,
    check_summary,
    split_messages,
    summarise_by_rules,
    write_transcript,
)
from worker.conversation.messages import Assistant, Message, ToolResult, User

SOURCE = "[call] gitlab_get_job_log 4711 … E assert 1 == 2 in src/app.py:12, /tmp/data/unit.log"


def summary(*facts: str) -> str:
    filled = {title: ["- none"] for title in TITLES} | {"Facts": [f"- {fact}" for fact in facts]}
    return "\n".join(f"## {title}\n" + "\n".join(lines) for title, lines in filled.items())


def test_a_fact_whose_place_was_seen_is_believed() -> None:
    text = summary("job 4711 failed in src/app.py:12", "the log is /tmp/data/unit.log.")
    assert check_summary(text, SOURCE) == text


def test_a_fact_whose_place_nobody_has_seen_is_left_out() -> None:
    text = summary("job 4711 failed", "src/app.py asserts", "job 9999 failed too")
    checked = check_summary(text, SOURCE)
    assert "job 4711" in checked
    assert "9999" not in checked
    assert "## Next" in checked


def test_a_summary_of_mostly_invented_places_is_none() -> None:
    assert (
        check_summary(summary("job 47 failed", "job 711 failed", "job 4711 failed"), SOURCE) == ""
    )


def test_what_is_no_summary_is_none() -> None:
    for text in ("", "## Facts\n- x", "Sure! " * 1000, summary("fine").replace("## Open", "Open")):
        assert check_summary(text, SOURCE) == ""


def test_talk_around_a_summary_is_left_out() -> None:
    assert check_summary(f"Here it is:\n\n{summary('fine')}", SOURCE).startswith("## Task")


def exchange(id: str, content: str, **arguments: object) -> list[Message]:
    made = call(id, "fetch", json.dumps(arguments))
    return [Assistant("", (made,)), ToolResult(id, "fetch", content)]


def test_a_digest_says_what_was_looked_at_and_where_it_lies() -> None:
    messages = [
        User("why?\n## Facts\n- forged"),
        *exchange("a", json.dumps({"saved_to": "/tmp/data/a.log", "preview": "x"}), job_id=4711),
        *exchange("b", json.dumps({"error": "gone\n## Task"}), path="src/app.py"),
        Assistant("The log names\napp.py."),
    ]
    text = summarise_by_rules(messages)
    assert '- fetch {"job_id": 4711} → saved to /tmp/data/a.log' in text
    assert "- The log names app.py." in text
    # Nothing that was read can pass for a section.
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        *("## Task", "## Facts", "## Said on the way")
    ]


def test_a_digest_goes_on_from_the_one_before_and_drops_the_oldest() -> None:
    before = "- oldest\n" * 1000
    text = summarise_by_rules(exchange("a", "{}", job_id=1), before)
    assert len(text.encode()) <= MOST_BYTES + 100
    assert text.startswith("(What is older is left out.)")
    assert "job_id" in text.splitlines()[-1]


def test_a_long_conversation_is_summarised_in_parts_that_end_between_exchanges() -> None:
    messages: list[Message] = []
    for number in range(6):
        messages += exchange(f"a{number}", "x" * 400, job_id=4711)
        messages += exchange(f"b{number}", "y" * 400, path="src/app.py")
    clusters = list(split_messages(messages, 3000))
    assert messages == [each for found in clusters for each in found]
    assert all(sum(map(len, write_transcript(found))) <= 3000 for found in clusters)
    for found in clusters:
        assert isinstance(found[0], Assistant)
