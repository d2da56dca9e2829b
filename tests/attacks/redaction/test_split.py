"""A secret that was split before it was looked for is in no note, joined again by whoever reads."""

import re
from collections.abc import Callable, Iterator

import pytest
from markdown_it import MarkdownIt

from tests.attacks.redaction.split import KNOWN, SPLITS, TOKEN, UNSEEN
from worker.answer.finish import LEFT_OUT, add_subject_hosts, find_kept_back
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.answer.note.note import Footer
from worker.answer.parse import parse_finding
from worker.answer.proof import prove_reply
from worker.conversation.context import Outcome, Status, Subject
from worker.gitlab.write.note_writers import CheckedNoteWriter, DryRunWriter
from worker.safety.markdown import Marker, find_marker
from worker.safety.redact import Redactor
from worker.safety.untrusted import visible
from worker.verdict.finding import Evidence, Finding, JobLog, Place
from worker.verdict.verdict import Verdict

pytestmark = pytest.mark.attack("redaction")

MARKER = Marker("0123456789abcdef0123", 0)
PROJECT = "https://gitlab.example.com/group/shop"
SUBJECT = Subject(
    *("https://gitlab.example.com", 7, "group/shop", 42, 7, 9001, "3f2a9c1d" * 5),
    f"{PROJECT}/-/merge_requests/42",
)
PAGES = frozenset({"ci.example/sessions"})
PLACES = add_subject_hosts(SUBJECT, PAGES)
DONE = Outcome(Status.DONE, "")
SIGNED = f"https://ci.example/sessions/{MARKER.session_id}?sig=1900000000.{'0f' * 32}"
FOOTER = Footer("test/model", 0.1, page=SIGNED)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
KNOWING = Redactor([KNOWN])


def redacted(text: str) -> str:
    """As the wiring hands it in."""
    return KNOWING.redact_text(visible(text))


class Nothing:
    """Captures of nothing."""

    def read_lines(self, place: Place) -> list[str]:
        return []

    def link_lines(self, place: Place, first: int, last: int) -> str:
        return ""


def posted(body: str) -> str:
    """What a checked writer makes of it."""
    writer = DryRunWriter()
    ref = CheckedNoteWriter(writer, PAGES, redacted).post_note(SUBJECT, body, "")
    return writer.get_body(ref)


def answers(text: str) -> Iterator[str]:
    """The notes that hold a model's answer, wherever it may stand in them."""
    whole = redacted(f"## Cause\n{text}\n## What to do\nsee {text}\n## Details\n{text}\n")
    yield note.write_finding(MARKER, Layout(parse_finding(whole), SUBJECT, DONE, PLACES), FOOTER)
    parts = prove_reply(redacted(f"It is\n\n{text}\n\nthere."), Nothing())
    yield note.write_answer(MARKER, SUBJECT, parts, DONE, FOOTER, PLACES)
    unredacted = Finding(Verdict.CHANGE, what_failed=text, evidence=(Evidence(JobLog(1), 2, text),))
    yield note.write_finding(MARKER, Layout(unredacted, SUBJECT, DONE, PLACES), FOOTER)


def read(body: str) -> str:
    """What a reader sees, without anything that he does not."""
    texts = []
    for token in PARSER.parse(body):
        parts = [token] if token.type == "fence" else token.children or ()
        texts.append("".join(each.content for each in parts if each.type != "html_inline"))
    return visible(re.sub(r"<!--.*?-->|</?\w+>", "", "\n".join(texts)))


@pytest.mark.parametrize("secret", [KNOWN, TOKEN], ids=["known", "token"])
@pytest.mark.parametrize("name", SPLITS)
def test_a_split_secret_is_in_no_note(
    name: str, secret: str, record_property: Callable[[str, object], None]
) -> None:
    tried = 0
    for at in range(1, len(secret) - 3, 4):
        for made in answers(SPLITS[name](secret, at)):
            body = posted(made)
            assert secret not in read(body)
            assert secret not in visible(body)
            assert find_marker(body) == MARKER
            assert f"[Session]({SIGNED})" in body
            tried += 1
    record_property("tried", tried)


@pytest.mark.parametrize("name", ["strong", "emphasis", "unseen and strong", "code"])
def test_the_model_is_told_of_it_and_not_shown_it(name: str) -> None:
    found = find_kept_back(PLACES, redacted, redacted(SPLITS[name](KNOWN, 7)))
    assert [each.reason for each in found] == ["it holds a secret"]
    assert KNOWN not in found[0].text.replace("*", "")
    assert "[redacted: secret]" in found[0].text


def test_the_rest_of_the_note_stays() -> None:
    split = f"{KNOWN[:6]}**{KNOWN[6:]}**"
    body = posted(
        f"{MARKER.text()}\n\nFirst.\n\nsee {split}\n\n- one\n- see {split}\n- three\n\nLast."
    )
    assert "\n\nFirst.\n" in body
    assert f"\n\n{LEFT_OUT}\n\n" in body
    assert f"\n- one\n- {LEFT_OUT}\n- three\n" in body
    assert body.endswith("\nLast.")


@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_body_that_is_edited_is_redacted_too(unseen: str) -> None:
    writer = DryRunWriter()
    notes = CheckedNoteWriter(writer, PAGES, redacted)
    ref = notes.post_note(SUBJECT, MARKER.text(), "")
    notes.edit_note(SUBJECT, ref, f"{MARKER.text()}\n\n`{unseen.join(KNOWN)}`")
    assert KNOWN not in writer.get_body(ref)
    assert find_marker(writer.get_body(ref)) == MARKER


def test_a_secret_in_the_place_of_a_signature_is_taken_out() -> None:
    hexadecimal = "c0ffee" * 8
    knowing = Redactor([hexadecimal])
    writer = DryRunWriter()
    notes = CheckedNoteWriter(writer, PAGES, knowing.redact_text)
    link = f"[Session](https://ci.example/sessions/x?sig=1.{hexadecimal})"
    ref = notes.post_note(SUBJECT, f"{MARKER.text()}\n\n{link}", "")
    assert hexadecimal not in writer.get_body(ref)
