"""The endpoints of notes, threads and reactions."""

from collections.abc import Mapping
from typing import Any

from worker.demo.gitlab import positions, views
from worker.demo.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    not_found,
    paged,
    strange,
)
from worker.demo.gitlab.state import Access, Discussion, MergeRequest, Note
from worker.demo.gitlab.world import NoteInvalid

_BODY = frozenset({"body"})


def notes(call: Call) -> Answer:
    """All notes, newest first unless `sort=asc`."""
    found = [note for note in call.merge_request().notes() if _sees(call, note)]
    if call.one("sort", "desc") not in {"asc", "desc"} or call.one(
        "order_by", "created_at"
    ) not in {"created_at", "updated_at"}:
        strange(400, "sort or order_by does not have a valid value")
    if call.one("sort", "desc") == "desc":
        found.reverse()
    return paged(call, [views.note(note) for note in found])


def note(call: Call) -> Answer:
    """One note."""
    return Answer(200, views.note(_note(call)))


def discussions(call: Call) -> Answer:
    """All threads, plain notes among them, oldest first."""
    found = call.merge_request().discussions.values()
    return paged(call, [views.discussion(each) for each in found if _sees(call, each.notes[0])])


def discussion(call: Call) -> Answer:
    """One thread."""
    return Answer(200, views.discussion(_thread(call, call.merge_request())))


def create_note(call: Call) -> Answer:
    """A plain note: a discussion of its own, not resolvable. Internal ones are a Reporter's."""
    level = call.world.access(call.merge_request().project, call.user)
    internal = call.fields.get("internal", False) and level >= int(Access.REPORTER)
    return _created(call, "", internal=bool(internal), thread=False)


def create_discussion(call: Call) -> Answer:
    """A thread: resolvable, and it may block merging. With a `position` it is on the diff."""
    position = call.fields.get("position")
    if position is not None and (reason := positions.refused(call.merge_request(), position)):
        raise Refused(400, {"message": reason})
    return _created(call, "", internal=False, thread=True, position=position)


def resolve(call: Call) -> Answer:
    """Resolve a thread, or open it again; a plain note cannot be."""
    thread = _thread(call, call.merge_request())
    if not isinstance(call.fields.get("resolved"), bool):
        strange(400, "resolved is missing or invalid")
    may = call.world.access(call.merge_request().project, call.user) >= int(Access.DEVELOPER)
    if thread.individual or not (may or thread.notes[0].author is call.user):
        raise Refused(403, {"message": "403 Forbidden"})
    thread.resolved = call.fields["resolved"]
    return Answer(200, views.discussion(thread))


def reply(call: Call) -> Answer:
    """A note in a thread; a plain note replied to becomes a thread."""
    thread = _thread(call, call.merge_request())
    return _created(call, thread.id, internal=False, thread=False)


def _created(
    call: Call,
    place: str,
    *,
    internal: bool,
    thread: bool,
    position: Mapping[str, Any] | None = None,
) -> Answer:
    mr = call.merge_request()
    _not_locked(call, mr)
    try:
        made = call.world.comment(
            mr,
            call.user,
            _body(call),
            place,
            internal=internal,
            thread=thread,
            position=position,
        )
    except NoteInvalid as error:
        raise Refused(400, {"message": str(error)}) from error
    if made is None:
        ran = [action.command for action in call.world.quick_actions[-1:]]
        summary = [f"Ran /{command}." for command in ran]
        return Answer(202, {"commands_changes": {}, "summary": summary})
    if thread:
        return Answer(201, views.discussion(mr.discussions[made.discussion_id]))
    return Answer(201, views.note(made))


def edit(call: Call) -> Answer:
    """Change a note's body; one that becomes nothing but commands is deleted."""
    found = _note(call)
    _not_locked(call, found.merge_request)
    if found.author is not call.user and call.world.access(
        found.merge_request.project, call.user
    ) < int(Access.MAINTAINER):
        raise Refused(403, {"message": "403 Forbidden"})
    try:
        call.world.edit(found, _body(call), call.user)
    except NoteInvalid as error:
        raise Refused(400, {"message": str(error)}) from error
    return Answer(200, views.note(found))


def delete(call: Call) -> Answer:
    """Remove one's own note."""
    found = _note(call)
    if found.author is not call.user:
        raise Refused(403, {"message": "403 Forbidden"})
    call.world.delete(found)
    return Answer(204, raw=b"")


def awards(call: Call) -> Answer:
    """The reactions to a note."""
    found = _note(call)
    users = call.world.users
    return paged(
        call,
        [views.award(key, users[who], name, found) for key, (who, name) in found.awards.items()],
    )


def add_award(call: Call) -> Answer:
    """React to a note; twice the same is an error, as in GitLab."""
    found, name = _note(call), str(call.fields.get("name", ""))
    if not name:
        strange(400, "name is missing")
    if (call.user.id, name) in found.awards.values():
        raise Refused(404, {"message": "404 Award Emoji Name has already been taken Not Found"})
    number = call.world.next_id("award")
    found.awards[number] = (call.user.id, name)
    return Answer(201, views.award(number, call.user, name, found))


def remove_award(call: Call) -> Answer:
    """Take one's own reaction back."""
    found, number = _note(call), call.number("award")
    if found.awards.get(number, (0, ""))[0] != call.user.id:
        not_found("Award Emoji")
    del found.awards[number]
    return Answer(204, raw=b"")


def _not_locked(call: Call, mr: MergeRequest) -> None:
    """A locked discussion takes no notes; here not of members either, to be strict."""
    if mr.discussion_locked:
        raise Refused(403, {"message": "403 Forbidden"})


def _body(call: Call) -> str:
    body = call.fields.get("body")
    if body is None:
        strange(400, "body is missing")
    if not isinstance(body, str):
        strange(400, "body is invalid")
    return body


def _sees(call: Call, note: Note) -> bool:
    level = call.world.access(note.merge_request.project, call.user)
    return not note.internal or level >= int(Access.REPORTER)


def _thread(call: Call, mr: MergeRequest) -> Discussion:
    found = mr.discussions.get(call.params["discussion"])
    if found is None or not _sees(call, found.notes[0]):
        not_found("Discussion")
    return found


def _note(call: Call) -> Note:
    mr = call.merge_request()
    wanted = call.number("note")
    pool = _thread(call, mr).notes if "discussion" in call.params else mr.notes()
    found = next((note for note in pool if note.id == wanted and _sees(call, note)), None)
    return found or not_found("Note")


_MR = "projects/:id/merge_requests/:iid"
_NOTE = f"{_MR}/notes/:note"
_THREAD = f"{_MR}/discussions/:discussion"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{_MR}/notes", notes, PAGING | {"sort", "order_by"}),
    Route("POST", f"{_MR}/notes", create_note, fields=_BODY | {"internal"}),
    Route("GET", _NOTE, note),
    Route("PUT", _NOTE, edit, fields=_BODY),
    Route("DELETE", _NOTE, delete),
    Route("GET", f"{_MR}/discussions", discussions, PAGING),
    Route("POST", f"{_MR}/discussions", create_discussion, fields=_BODY | {"position"}),
    Route("GET", _THREAD, discussion),
    Route("PUT", _THREAD, resolve, fields=frozenset({"resolved"})),
    Route("POST", f"{_THREAD}/notes", reply, fields=_BODY),
    Route("PUT", f"{_THREAD}/notes/:note", edit, fields=_BODY),
    Route("GET", f"{_NOTE}/award_emoji", awards, PAGING),
    Route("POST", f"{_NOTE}/award_emoji", add_award, fields=frozenset({"name"})),
    Route("DELETE", f"{_NOTE}/award_emoji/:award", remove_award),
)
