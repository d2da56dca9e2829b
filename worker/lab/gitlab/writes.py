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
    Routes,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, DiffFile, Discussion, MergeRequest, Note
from worker.lab.gitlab.world import NoteInvalid

ROUTES = Routes()

_MR = "projects/:id/merge_requests/:iid"
_NOTE = f"{_MR}/notes/:note"
_THREAD = f"{_MR}/discussions/:discussion"
_BODY = frozenset({"body"})


@ROUTES.add("GET", f"{_MR}/notes", PAGING | {"sort", "order_by"})
def _list_notes(call: Call) -> Answer:
    """List all notes, newest first unless `sort=asc`."""
    notes = [note for note in call.find_merge_request().list_notes() if _may_see(call, note)]
    if call.get_value("sort", "desc") not in {"asc", "desc"} or call.get_value(
        "order_by", "created_at"
    ) not in {"created_at", "updated_at"}:
        refuse_strange(400, "sort or order_by does not have a valid value")
    if call.get_value("sort", "desc") == "desc":
        notes.reverse()
    return make_page(call, [views.show_note(note) for note in notes])


@ROUTES.add("GET", _NOTE)
def _get_note(call: Call) -> Answer:
    return Answer(200, views.show_note(_find_note(call)))


@ROUTES.add("GET", f"{_MR}/discussions", PAGING)
def _list_discussions(call: Call) -> Answer:
    """List all threads, oldest first, including plain notes."""
    threads = call.find_merge_request().discussions.values()
    return make_page(
        call, [views.show_discussion(each) for each in threads if _may_see(call, each.notes[0])]
    )


@ROUTES.add("GET", _THREAD)
def _get_discussion(call: Call) -> Answer:
    return Answer(200, views.show_discussion(_find_thread(call, call.find_merge_request())))


@ROUTES.add("POST", f"{_MR}/notes", fields=_BODY | {"internal"})
def _create_note(call: Call) -> Answer:
    """Create a plain note: a discussion of its own, not resolvable.

    Only Reporters and above can make it internal.
    """
    level = call.world.get_access(call.find_merge_request().project, call.user)
    internal = call.fields.get("internal", False) and level >= int(Access.REPORTER)
    return _create(call, "", internal=bool(internal), thread=False)


@ROUTES.add("POST", f"{_MR}/discussions", fields=_BODY | {"position"})
def _create_discussion(call: Call) -> Answer:
    """Create a resolvable thread, which may block merging; with a `position`, on the diff."""
    position = call.fields.get("position")
    if position is not None and (reason := _explain_refusal(call.find_merge_request(), position)):
        raise Refused(400, {"message": reason})
    return _create(call, "", internal=False, thread=True, position=position)


@ROUTES.add("PUT", _THREAD, fields={"resolved"})
def _resolve_discussion(call: Call) -> Answer:
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


@ROUTES.add("POST", f"{_THREAD}/notes", fields=_BODY)
def _create_reply(call: Call) -> Answer:
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
    try:
        note = call.world.comment(
            mr,
            call.user,
            _get_body(call, mr),
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


@ROUTES.add("PUT", _NOTE, fields=_BODY)
@ROUTES.add("PUT", f"{_THREAD}/notes/:note", fields=_BODY)
def _edit_note(call: Call) -> Answer:
    """Change a note's body; a note left with only quick actions is deleted."""
    note = _find_note(call)
    mr = note.merge_request
    level = call.world.get_access(mr.project, call.user)
    if note.author is not call.user and level < int(Access.MAINTAINER):
        raise Refused(403, {"message": "403 Forbidden"})
    try:
        call.world.edit(note, _get_body(call, mr), call.user)
    except NoteInvalid as error:
        raise Refused(400, {"message": str(error)}) from error
    return Answer(200, views.show_note(note))


@ROUTES.add("DELETE", _NOTE)
def _delete_note(call: Call) -> Answer:
    note = _find_note(call)
    if note.author is not call.user:
        raise Refused(403, {"message": "403 Forbidden"})
    call.world.delete(note)
    return Answer(204, raw=b"")


@ROUTES.add("GET", f"{_NOTE}/award_emoji", PAGING)
def _list_awards(call: Call) -> Answer:
    note = _find_note(call)
    users = call.world.users
    return make_page(
        call,
        [views.show_award(key, users[who], name) for key, (who, name) in note.awards.items()],
    )


@ROUTES.add("POST", f"{_NOTE}/award_emoji", fields={"name"})
def _add_award(call: Call) -> Answer:
    """React to a note; the same reaction twice is an error, as in GitLab."""
    note, name = _find_note(call), str(call.fields.get("name", ""))
    if not name:
        refuse_strange(400, "name is missing")
    if (call.user.id, name) in note.awards.values():
        raise Refused(404, {"message": "404 Award Emoji Name has already been taken Not Found"})
    number = call.world.make_id("award")
    note.awards[number] = (call.user.id, name)
    return Answer(201, views.show_award(number, call.user, name))


@ROUTES.add("DELETE", f"{_NOTE}/award_emoji/:award")
def _remove_award(call: Call) -> Answer:
    note, number = _find_note(call), call.get_number("award")
    if note.awards.get(number, (0, ""))[0] != call.user.id:
        refuse_not_found("Award Emoji")
    del note.awards[number]
    return Answer(204, raw=b"")


def _get_body(call: Call, mr: MergeRequest) -> str:
    """Return the text of a note; on a locked merge request none is taken, to be strict of members
    neither."""
    if mr.discussion_locked:
        raise Refused(403, {"message": "403 Forbidden"})
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


def _explain_refusal(mr: MergeRequest, position: object) -> str:
    """Explain why GitLab refuses the position; "" if it does not."""
    if not isinstance(position, Mapping) or set(position) - _KNOWN:
        return "position is invalid"
    missing = [name for name in _REQUIRED if not position.get(name)]
    if missing or position["position_type"] != "text":
        return f"position[{(missing or ['position_type'])[0]}] is missing or invalid"
    shas = tuple(position[name] for name in ("base_sha", "start_sha", "head_sha"))
    lines = (position.get("old_line"), position.get("new_line"))
    paths = (position["old_path"], position["new_path"])
    files = [each for each in mr.diffs if (each.old_path or each.new_path, each.new_path) == paths]
    exists = any(lines in _number_lines(each) for each in files)
    if not exists or shas != (mr.base_sha, mr.base_sha, mr.sha):
        return (
            '400 Bad request - Note {:line_code=>["can\'t be blank", "must be a valid line code"]}'
        )
    return ""


def _number_lines(file: DiffFile) -> Iterator[tuple[int | None, int | None]]:
    """Yield (old, new) of each line of the diff: old is None if added, new is None if removed."""
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
