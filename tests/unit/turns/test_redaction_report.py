"""What was taken out at the door is told: in the log, in the note, with the session."""

import logging

import pytest

from tests.jobs import FINDING, EchoToolset, Job
from worker.gitlab.read.redactions import Redactions
from worker.safety.redact import Redactor
from worker.turns.parts import Finished

LOG = "the log of job 4711"
TOKEN = b"glpat-" + b"aB3dE5gH7jK9mN1pQ3sT"


def test_kinds_and_counts_are_logged_once_noted_and_stored(
    at: Job, caplog: pytest.LogCaptureFixture
) -> None:
    at.script_answers(FINDING)
    toolset = EchoToolset(redacted={("private-key", LOG): 1, ("gitlab-token", LOG): 2})
    with caplog.at_level(logging.INFO, "sandpiper"):
        ended = at.run_failed(toolset=lambda subject, workflow: toolset)
    assert isinstance(ended, Finished)
    told = "2 GitLab tokens, 1 private key"
    assert sum(told in record.message for record in caplog.records) == 1
    (note,) = at.scene.mr.list_notes()
    assert f" · {told} masked in {LOG} · " in note.body
    assert at.load_context(ended.key).redactions == (
        ("gitlab-token", 2, LOG),
        ("private-key", 1, LOG),
    )


def test_what_was_taken_out_of_several_documents_is_counted_and_named_in_the_details(
    at: Job,
) -> None:
    at.script_answers(FINDING)
    toolset = EchoToolset(redacted={("private-key", "file deploy.sh"): 1, ("gitlab-token", LOG): 2})
    at.run_failed(toolset=lambda subject, workflow: toolset)
    visible, _, folded = at.scene.mr.list_notes()[0].body.partition("<details>")
    folded, _, small = folded.partition("<sub>")
    assert f" · 2 GitLab tokens masked in {LOG} · " in small
    assert "- 1 private key masked in file `deploy.sh`\n" in folded.replace(
        "deploy.sh", "`deploy.sh`"
    )
    assert f"- 2 GitLab tokens masked in {LOG}\n" in folded
    assert "masked" not in visible


def test_where_nothing_was_redacted_nothing_is_said(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    (note,) = at.scene.mr.list_notes()
    assert "masked" not in note.body


def test_a_secret_that_comes_again_counts_once() -> None:
    redact = Redactions(Redactor().redact_data)
    first, second = b"a\nlogin " + TOKEN + b"\nb\n", b"push " + TOKEN + b"\n"
    for data in (first, first, first + second, b"nothing\n"):
        assert redact(data).find(TOKEN) < 0
    assert redact.counts == {("gitlab-token", ""): 1}
    title = {"title": f"see {TOKEN.decode()}", "labels": ["a", f"x {TOKEN.decode()}"]}
    assert redact.redact_to_json(title).find(TOKEN) < 0
    assert redact.counts == {("gitlab-token", ""): 1}


def test_two_keys_are_two_secrets() -> None:
    redact = Redactions(Redactor().redact_data)
    for letter in ("A", "B", "A"):
        key = f"-----BEGIN PRIVATE KEY-----\n{letter * 64}\n-----END PRIVATE KEY-----\n"
        assert letter * 64 not in redact.redact_text(f"the key:\n{key}done")
    assert redact.counts == {("private-key", ""): 2}


def test_a_mark_that_was_there_before_is_nobodys_secret() -> None:
    redact = Redactions(Redactor().redact_data)
    redact(b"[redacted: gitlab-token] and " + TOKEN)
    assert redact.counts == {("gitlab-token", ""): 1}
