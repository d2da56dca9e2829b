"""The endpoints of notes, threads and reactions.

A note's `position` on a diff is checked as https://docs.gitlab.com/api/discussions/ says.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, DiffFile, Discussion, MergeRequest, Note
from worker.lab.gitlab.world import NoteInvalid

_BODY = frozenset({"body"})


def list_notes(call: Call) -> Answer:
    """List all notes, newest first unless `sort=asc`."""
    notes = [note for note in call.find_merge_request().list_notes() if _may_see(call, note)]
    if call.get_value("sort", "desc") not in {"asc", "desc"} or call.get_value(
        "order_by", "created_at"
    ) not in {"created_at", "updated_at"}:
        refuse_strange(400, "sort or order_by does not have a valid value")
    if call.get_value("sort", "desc") == "desc":
        notes.reverse()
    return make_page(call, [views.show_note(note) for note in notes])


def get_note(call: Call) -> Answer:
    """Return one note."""
    return Answer(200, views.show_note(_find_note(call)))


def list_discussions(call: Call) -> Answer:
    """List all threads, oldest first, including plain notes."""
    threads = call.find_merge_request().discussions.values()
    return make_page(
        call, [views.show_discussion(each) for each in threads if _may_see(call, each.notes[0])]
    )


def get_discussion(call: Call) -> Answer:
    """Return one thread."""
    return Answer(200, views.show_discussion(_find_thread(call, call.find_merge_request())))


def create_note(call: Call) -> Answer:
    """Create a plain note: a discussion of its own, not resolvable.

    Only Reporters and above can make it internal.
    """
    level = call.world.get_access(call.find_merge_request().project, call.user)
    internal = call.fields.get("internal", False) and level >= int(Access.REPORTER)
    return _create(call, "", internal=bool(internal), thread=False)


def create_discussion(call: Call) -> Answer:
    """Create a resolvable thread, which may block merging; with a `position`, on the diff."""
    position = call.fields.get("position")
    if position is not None and (reason := explain_refusal(call.find_merge_request(), position)):
        raise Refused(400, {"message": reason})
    return _create(call, "", internal=False, thread=True, position=position)


def resolve_discussion(call: Call) -> Answer:
    """Resolve a thread or reopen it; a plain note cannot be resolved."""
    thread = _find_thread(call, call.find_merge_request())
    if not isinstance(call.fields.get("resolved"), bool):
        refuse_strange(400, "resolved is missing or invalid")
    may = call.world.get_access(call.find_merge_request().project, call.user) >= int(
        Access.DEVELOPER
    )
    if thread.individual or not (may or thread.notes[0].author is call.user):
        raise Refused(403, {"message": "403 Forbidden"})
    thread.resolved = call.fields["resolved"]
    return Answer(200, views.show_discussion(thread))


def create_reply(call: Call) -> Answer:
    """Create a note in a thread; a reply to a plain note makes it a thread."""
    thread = _find_thread(call, call.find_merge_request())
    return _create(call, thread.id, internal=False, thread=False)


def _create(
    call: Call,
    place: str,
    *,
    internal: bool,
    thread: bool,
    position: Mapping[str, Any] | None = None,
) -> Answer:
    mr = call.find_merge_request()
    _refuse_locked(call, mr)
    try:
        note = call.world.comment(
            mr,
            call.user,
            _get_body(call),
            place,
            internal=internal,
            thread=thread,
            position=position,
        )
    except NoteInvalid as error:
        raise Refused(400, {"message": str(error)}) from error
    if note is None:
        ran = [action.command for action in call.world.quick_actions[-1:]]
        summary = [f"Ran /{command}." for command in ran]
        return Answer(202, {"commands_changes": {}, "summary": summary})
    if thread:
        return Answer(201, views.show_discussion(mr.discussions[note.discussion_id]))
    return Answer(201, views.show_note(note))


def edit_note(call: Call) -> Answer:
    """Change a note's body; a note left with only quick actions is deleted."""
    note = _find_note(call)
    _refuse_locked(call, note.merge_request)
    if note.author is not call.user and call.world.get_access(
        note.merge_request.project, call.user
    ) < int(Access.MAINTAINER):
        raise Refused(403, {"message": "403 Forbidden"})
    try:
        call.world.edit(note, _get_body(call), call.user)
    except NoteInvalid as error:
        raise Refused(400, {"message": str(error)}) from error
    return Answer(200, views.show_note(note))


def delete_note(call: Call) -> Answer:
    """Delete the user's own note."""
    note = _find_note(call)
    if note.author is not call.user:
        raise Refused(403, {"message": "403 Forbidden"})
    call.world.delete(note)
    return Answer(204, raw=b"")


def list_awards(call: Call) -> Answer:
    """List the reactions to a note."""
    note = _find_note(call)
    users = call.world.users
    return make_page(
        call,
        [views.show_award(key, users[who], name) for key, (who, name) in note.awards.items()],
    )


def add_award(call: Call) -> Answer:
    """React to a note; the same reaction twice is an error, as in GitLab."""
    note, name = _find_note(call), str(call.fields.get("name", ""))
    if not name:
        refuse_strange(400, "name is missing")
    if (call.user.id, name) in note.awards.values():
        raise Refused(404, {"message": "404 Award Emoji Name has already been taken Not Found"})
    number = call.world.make_id("award")
    note.awards[number] = (call.user.id, name)
    return Answer(201, views.show_award(number, call.user, name))


def remove_award(call: Call) -> Answer:
    """Remove the user's own reaction."""
    note, number = _find_note(call), call.get_number("award")
    if note.awards.get(number, (0, ""))[0] != call.user.id:
        refuse_not_found("Award Emoji")
    del note.awards[number]
    return Answer(204, raw=b"")


def _refuse_locked(call: Call, mr: MergeRequest) -> None:
    """Refuse notes on a locked merge request; to be strict, those of members too."""
    if mr.discussion_locked:
        raise Refused(403, {"message": "403 Forbidden"})


def _get_body(call: Call) -> str:
    body = call.fields.get("body")
    if body is None:
        refuse_strange(400, "body is missing")
    if not isinstance(body, str):
        refuse_strange(400, "body is invalid")
    return body


def _may_see(call: Call, note: Note) -> bool:
    level = call.world.get_access(note.merge_request.project, call.user)
    return not note.internal or level >= int(Access.REPORTER)


def _find_thread(call: Call, mr: MergeRequest) -> Discussion:
    thread = mr.discussions.get(call.params["discussion"])
    if thread is None or not _may_see(call, thread.notes[0]):
        refuse_not_found("Discussion")
    return thread


def _find_note(call: Call) -> Note:
    mr = call.find_merge_request()
    wanted = call.get_number("note")
    pool = _find_thread(call, mr).notes if "discussion" in call.params else mr.list_notes()
    match = next((note for note in pool if note.id == wanted and _may_see(call, note)), None)
    return match or refuse_not_found("Note")


_REQUIRED = ("position_type", "base_sha", "start_sha", "head_sha", "old_path", "new_path")
_KNOWN = {*_REQUIRED, "new_line", "old_line"}
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

INVALID_LINE = (
    '400 Bad request - Note {:line_code=>["can\'t be blank", "must be a valid line code"]}'
)


def explain_refusal(mr: MergeRequest, position: object) -> str:
    """Explain why GitLab refuses the position; "" if it does not."""
    if not isinstance(position, Mapping) or set(position) - _KNOWN:
        return "position is invalid"
    missing = [name for name in _REQUIRED if not position.get(name)]
    if missing or position["position_type"] != "text":
        return f"position[{(missing or ['position_type'])[0]}] is missing or invalid"
    shas = tuple(position[name] for name in ("base_sha", "start_sha", "head_sha"))
    lines = (position.get("old_line"), position.get("new_line"))
    if shas != (mr.base_sha, mr.base_sha, mr.sha) or lines not in _list_lines(mr, position):
        return INVALID_LINE
    return ""


def _list_lines(
    mr: MergeRequest, position: Mapping[str, Any]
) -> set[tuple[int | None, int | None]]:
    """Return (old, new) of each line of the diff: old is None if added, new is None if removed."""
    wanted = (position["old_path"], position["new_path"])
    files = (file for file in mr.diffs if (file.old_path or file.new_path, file.new_path) == wanted)
    return {line for file in files for line in _number_lines(file)}


def _number_lines(file: DiffFile) -> Iterator[tuple[int | None, int | None]]:
    old = new = 0
    for line in file.diff.splitlines():
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("+"):
            yield None, new
            new += 1
        elif line.startswith("-"):
            yield old, None
            old += 1
        elif line.startswith(" "):
            yield old, new
            old, new = old + 1, new + 1


_MR = "projects/:id/merge_requests/:iid"
_NOTE = f"{_MR}/notes/:note"
_THREAD = f"{_MR}/discussions/:discussion"

ROUTES: tuple[Route, ...] = (
    Route("GET", f"{_MR}/notes", list_notes, PAGING | {"sort", "order_by"}),
    Route("POST", f"{_MR}/notes", create_note, fields=_BODY | {"internal"}),
    Route("GET", _NOTE, get_note),
    Route("PUT", _NOTE, edit_note, fields=_BODY),
    Route("DELETE", _NOTE, delete_note),
    Route("GET", f"{_MR}/discussions", list_discussions, PAGING),
    Route("POST", f"{_MR}/discussions", create_discussion, fields=_BODY | {"position"}),
    Route("GET", _THREAD, get_discussion),
    Route("PUT", _THREAD, resolve_discussion, fields=frozenset({"resolved"})),
    Route("POST", f"{_THREAD}/notes", create_reply, fields=_BODY),
    Route("PUT", f"{_THREAD}/notes/:note", edit_note, fields=_BODY),
    Route("GET", f"{_NOTE}/award_emoji", list_awards, PAGING),
    Route("POST", f"{_NOTE}/award_emoji", add_award, fields=frozenset({"name"})),
    Route("DELETE", f"{_NOTE}/award_emoji/:award", remove_award),
)
