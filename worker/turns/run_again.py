"""What follows when the failure of a commit that was looked at comes again: jobs were run again, in
the same pipeline or in a new one."""

import logging
from dataclasses import dataclass, replace

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import older_note
from worker.conversation import prompts
from worker.conversation.context import (
    ASKED,
    KNOWN,
    Context,
    NoteRef,
    Outcome,
    Status,
    Subject,
    find_last_tool_turn,
)
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, User
from worker.conversation.session_id import SessionKey
from worker.conversation.tiers import TierChoice
from worker.errors import ForgeError
from worker.gitlab.ports import OwnNote
from worker.safety.marker import Marker
from worker.turns import stored_turns
from worker.turns.parts import Deps
from worker.turns.unfinished_note import is_unfinished
from worker.verdict.aftermath import Aftermath, dump_aftermath
from worker.verdict.jobs import Survey
from worker.verdict.survey_text import tell_leads, tell_survey, tell_time
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.notes")

_PASSES = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE})
"""Verdicts that say: run it again. The same failure after that ends them."""

_LOOK = """\
(Nobody asks: GitLab says that {which} has failed again on this commit, in another way than what was
looked into above: other jobs, or other errors. {files}
Run the whole workflow now on this failure, with your tools, and answer with its sections: your
answer takes the place of the note. What was found before is about the earlier run, whose jobs have
other ids: say of it only what still matters.
{time})

{survey}
"""
_ASKED = """\
(The operator asks for the whole analysis once more, at the terminal. {files}
Look at the failure with fresh eyes: run the whole workflow now, with your tools, and answer with
its sections: your answer takes the place of the note. Say where you come to another conclusion than
before.
{time})

{survey}
"""
_SAME = """\
(GitLab says that {which} has failed again on this commit, in the same way: the same jobs with the
same errors. The note says so.{ended})
"""
_ENDED = (
    ' So it does not pass by itself: the verdict "{}" has ended, and nothing takes its place yet.'
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that GitLab tells of: its pipeline, which ended at `ended_at` by GitLab's clock
    (epoch seconds; 0 if that is not known, or if the pipeline still runs)."""

    subject: Subject
    ended_at: float = 0.0


def explain_nothing_new(stored: Context, failure: Failure) -> str:
    """Return why a session, of which `stored` is the newest turn, knows this failure; "" if it may
    be another one."""
    ours, theirs = stored.subject, failure.subject
    number = theirs.pipeline_id
    if number < ours.pipeline_id:
        return f"commit {theirs.sha} was looked at with pipeline {ours.pipeline_id}, a newer one"
    if number > ours.pipeline_id:
        return ""
    known = int(stored.ended_at)
    if known and known == int(failure.ended_at):
        return f"this failure of pipeline {number} was looked at already"
    # What began after the pipeline's end has seen it, where there is nothing to compare it with.
    is_blind = stored.survey is None or not stored.survey.groups
    if is_blind and failure.ended_at <= stored.turn_usage.started_at:
        return f"pipeline {number} was looked at"
    return ""


def find_living_note(
    key: SessionKey, stored: Context, subject: Subject, deps: Deps
) -> OwnNote | None:
    """Return the note of the session's looks, with what was found last; None if somebody deleted
    it. Raises ForgeError and StoreError."""
    marker = Marker(key.session_id, 0)
    own = (each for each in deps.gitlab.notes.list_own_notes(subject) if each.marker == marker)
    note = next(own, None)
    if note is None or not is_unfinished(note.body):
        return note
    # A look that was not finished has left its promise there.
    look = stored_turns.find_newest_look(key, stored.turn, deps)
    return replace(note, body=look.note_text) if look and look.note_text else note


def make_look(
    stored: Context,
    failure: Failure,
    survey: Survey,
    deps: Deps,
    *,
    files: int | None,
    tier: TierChoice | None,
    on_request: bool = False,
) -> Context:
    """Return the context of the turn that looks at a failure of another kind, or, `on_request`, at
    the same one once more.

    `files` is the newest turn whose sandbox files can be restored, None if there is none.
    """
    surveyed = "\n\n".join(filter(None, (tell_survey(survey), tell_leads(survey))))
    text = (_ASKED if on_request else _LOOK).format(
        which=_name_pipeline(stored, failure),
        files=prompts.tell_files(files, find_last_tool_turn(stored)),
        time=tell_time(deps.runtime.clock.now()),
        survey=surveyed,
    )
    now = _move_on(stored, failure, deps)
    internal = bool(stored.note and stored.note.internal)
    return replace(
        now,
        look=now.turn,
        survey=survey,
        found_by=ASKED,
        note=NoteRef(0, internal=internal),
        tier=tier,
        on_request=on_request,
    ).add(User(deps.runtime.redact(text)))


def _move_on(stored: Context, failure: Failure, deps: Deps) -> Context:
    """Return the turn after `stored`, about the new failure, before anything is said in it."""
    return replace(
        stored,
        turn=stored.turn + 1,
        turn_start=len(stored.messages),
        turn_usage=TurnUsage(started_at=deps.runtime.clock.now()),
        subject=failure.subject,
        ended_at=failure.ended_at,
        first_pipeline=stored.first_pipeline or stored.subject.pipeline_id,
        outcome=None,
        gave_way="",
        note_text="",
        unposted_note="",
        verdict="",
        seconds=0.0,
        fact="",
        earlier_note="",
        on_request=False,
        dry_turns=stored.dry_turns + ((stored.turn + 1,) if deps.options.dry_run else ()),
        redactions=(),
        losses=(),
        handed_over=False,
    )


def _name_pipeline(stored: Context, failure: Failure) -> str:
    number = failure.subject.pipeline_id
    if number == stored.subject.pipeline_id:
        return f"pipeline {number}, in which jobs were run again,"
    return f"a new pipeline, {number},"


def tell_same_failure(
    key: SessionKey, stored: Context, failure: Failure, survey: Survey, deps: Deps
) -> Context:
    """Say in the session's note that the failure came again in the same way, and return the turn
    that records it. No model is asked.

    Doing it twice changes nothing. Raises ForgeError and StoreError.
    """
    judged = stored_turns.find_verdict(key, stored.turn, deps)
    passed_between = _has_passed(key, stored, deps)
    is_held = judged and judged.turn >= stored.look and judged.verdict in _PASSES
    ended = judged.verdict if judged and is_held and not passed_between else ""
    if judged and ended:
        where = failure.subject
        told = Aftermath("failed_again", where.pipeline_id, where.sha, deps.runtime.clock.now())
        deps.storage.sessions.write_aftermath(key, judged.turn, dump_aftermath(told))
    said = _mark_note(key, stored, failure.subject, ended, deps, passed_between=passed_between)
    text = _SAME.format(
        which=_name_pipeline(stored, failure), ended=_ENDED.format(ended) if ended else ""
    )
    now = _move_on(stored, failure, deps)
    answer = "It failed again in the same way."
    note, body = said or (stored.note, "")
    return replace(
        now,
        survey=survey,
        note=note,
        note_text=body,
        verdict=Verdict.UNKNOWN if ended else "",
        found_by=KNOWN if ended else stored.found_by,
        outcome=Outcome(Status.DONE, answer),
    ).add(User(text), Assistant(answer))


def _has_passed(key: SessionKey, stored: Context, deps: Deps) -> bool:
    """Whether the commit has passed since it was looked at."""
    after = stored_turns.find_aftermath(deps.storage.sessions, key, stored.look, stored.look)
    return after is not None and after.became == "passed_again"


def _mark_note(
    key: SessionKey,
    stored: Context,
    subject: Subject,
    ended: str,
    deps: Deps,
    *,
    passed_between: bool,
) -> tuple[NoteRef, str] | None:
    """Write the line into the note; None if the note is gone. Raises ForgeError."""
    note = find_living_note(key, stored, subject, deps)
    if note is None:
        log.info("session %s: its note is gone, so nothing is said there", key.session_id)
        return None
    body = older_note.mark_failed_again(note.body, subject, ended, passed_between=passed_between)
    finished = finish_body(body, add_subject_hosts(subject, deps.gitlab.hosts), deps.runtime.redact)
    if finished.kept_back:
        log.warning("session %s: its note is left as it is", key.session_id)
        return note.ref, note.body
    if finished.body != note.body:
        try:
            deps.gitlab.notes.edit_note(subject, note.ref, finished.body)
        except ForgeError as error:
            if error.status != 404:
                raise
            log.info("note %d was deleted meanwhile", note.ref.note_id)
    return note.ref, finished.body
