"""Writes to GitLab with the write token: notes and reactions only, and no note twice."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import requests
from gitlab.exceptions import GitlabParsingError

from worker.conversation.context import NoteRef, Subject
from worker.errors import ForgeError
from worker.gitlab.client import (
    FOREIGN,
    IN_PLACE,
    RETRIES,
    TIMEOUT,
    Connections,
    decode_json,
    explain_failure,
)
from worker.gitlab.ports import OwnNote, Votes
from worker.safety.markdown import Marker, find_marker
from worker.verdict.diffs import Position

Json = dict[str, Any]

PAGES = 100
PER_PAGE = 20
"""The newest `PAGES * PER_PAGE` notes are searched for our own. Pages are small, as notes can be
huge."""

OWN_PAGES = 15
"""How many pages `list_own_notes` reads."""

SETTLE = (1.0, 5.0, 15.0)
"""Seconds to wait, one after another, before looking whether GitLab carried out a write late."""

_LATE = (0, 504)
"""The status of a write that GitLab may still be carrying out: no answer, or a proxy's time-out."""

MAX_ANSWER = 128 * 1024 * 1024
"""The most bytes of one answer: a page of the longest notes that GitLab allows."""

_EYES = "eyes"

_VOTES = {"thumbsup": True, "thumbsdown": False}
"""The emoji that are votes; GitLab may add `_tone1` and the like to their names."""

_AWARD_PAGES = 10
_IDEMPOTENT: Json = {"retry_transient_errors": True, "max_retries": RETRIES}
"""Options of requests that may be repeated."""

_HURRIED: Json = {"timeout": (2, 4), "retry_transient_errors": False, "obey_rate_limit": False}
"""Options of a write that may be skipped; of `timeout` requests takes (connect, read)."""

_POSTED: Json = {"retry_transient_errors": False, "max_retries": RETRIES}
"""Options of a POST: if it was rate-limited it was not processed and may be repeated, else not."""


class GitLabWriter:
    """The BotAccount, NoteWriter and Reactions of a GitLab instance. Safe to share by threads.

    A body that is passed to `post_note` begins with its marker.
    """

    def __init__(
        self,
        url: str,
        token: str,
        timeout: tuple[float, float] = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.connections = Connections(url, token, timeout)
        self._sleep = sleep
        self._me: tuple[int, str] | None = None
        self._late_edits: set[int] = set()  # notes with an edit that may still be carried out

    def get_user_id(self) -> int:
        """Return the id of the write token's user; GitLab is asked once."""
        return self._get_user()[0]

    def get_user_name(self) -> str:
        """Return the user name of the write token's user."""
        return self._get_user()[1]

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Return our own note that begins with `marker`; notes of others are ignored."""
        return next(self._find_all(subject, marker, discussion_id), None)

    def _find_all(self, subject: Subject, marker: Marker, discussion_id: str) -> Iterator[NoteRef]:
        me = self.get_user_id()
        for note in self._list_notes(subject, discussion_id):
            if _get_author_id(note) == me and find_marker(str(note.get("body", ""))) == marker:
                yield _make_ref(subject, note, discussion_id)

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """Yield our own notes with a marker, among the newest `OWN_PAGES * PER_PAGE`."""
        me = self.get_user_id()
        for note in self._list_notes(subject, "", OWN_PAGES):
            body = str(note.get("body", ""))
            marker = find_marker(body) if _get_author_id(note) == me else None
            if marker:
                unresolved = note.get("resolvable") is True and note.get("resolved") is not True
                internal = note.get("internal") is True
                yield OwnNote(_make_ref(subject, note, ""), marker, body, unresolved, internal)

    def post_note(
        self,
        subject: Subject,
        body: str,
        discussion_id: str,
        *,
        thread: bool = False,
        at: Position | None = None,
        internal: bool = False,
    ) -> NoteRef:
        """Post a note. If the answer is lost, look for the note before retrying once."""
        # GitLab ignores `internal` for threads: the note would be public without any warning.
        begins = not internal and (thread or at is not None)
        place = f"{_make_path(subject)}/{'discussions' if begins else 'notes'}"
        if discussion_id:
            place = f"{_make_path(subject)}/discussions/{quote(discussion_id, safe='')}/notes"
        fields: Json = {"body": body} | ({"internal": True} if internal else {})
        if at:
            position = {"position_type": "text", **asdict(at)}
            fields["position"] = {name: each for name, each in position.items() if each is not None}
        ref = self._create_once(subject, place, fields, discussion_id)
        if internal and not ref.internal:
            self._remove_note(subject, ref)
            raise ForgeError(
                f"a note on !{subject.mr_iid}: GitLab does not make it internal, and more people "
                "read the merge request than its job logs: make the bot's user a Reporter"
            )
        return ref

    def _create_once(
        self, subject: Subject, place: str, fields: Json, discussion_id: str
    ) -> NoteRef:
        marker = find_marker(str(fields["body"]))
        try:
            return self._create(subject, place, fields, discussion_id)
        except ForgeError as error:
            if not error.transient or marker is None:
                raise
            pauses = SETTLE if error.status in _LATE else SETTLE[:1]
        for pause in pauses:
            self._sleep(pause)
            if found := self.find_note(subject, marker, discussion_id):
                return found
        ref = self._create(subject, place, fields, discussion_id)
        return self._keep_oldest(subject, marker, ref)

    def _keep_oldest(self, subject: Subject, marker: Marker, ref: NoteRef) -> NoteRef:
        """Remove all but the oldest note with the marker: GitLab may have made the first late."""
        with suppress(ForgeError):  # two notes are better than none
            same = {ref, *self._find_all(subject, marker, ref.discussion_id)}
            ref, *others = sorted(same, key=lambda note: note.note_id)
            for note in others:
                self._remove_note(subject, note)
        return ref

    def remove_copies(
        self, subject: Subject, marker: Marker, kept: NoteRef, *, older: bool = False
    ) -> int:
        """Remove our other notes with the marker: GitLab may have carried out a POST late."""
        copies = []
        for note in self._find_all(subject, marker, kept.discussion_id):
            if note.note_id != kept.note_id:
                copies.append(note)
            elif not older and not kept.discussion_id:
                break  # the newest come first
        for note in copies:
            self._remove_note(subject, note)
        return len(copies)

    def _remove_note(self, subject: Subject, note: NoteRef) -> None:
        self._remove(f"{_make_path(subject)}/notes/{note.note_id}", f"note {note.note_id}")

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """Replace a note's body. This is idempotent, so it is retried unless `hurried`.

        A hurried edit that GitLab carries out late does not replace the body of a later edit.
        """
        path = f"{_make_path(subject)}/notes/{note.note_id}"
        try:
            self._put_body(path, note, body, hurried=hurried)
        except ForgeError as error:
            if hurried and error.status in _LATE:
                self._late_edits.add(note.note_id)
            raise
        if not hurried and note.note_id in self._late_edits:
            self._late_edits.discard(note.note_id)
            self._keep_body(path, note, body)

    def _keep_body(self, path: str, note: NoteRef, body: str) -> None:
        """Look at the note several times, and write its body again if it was replaced."""
        for pause in SETTLE:
            self._sleep(pause)
            with suppress(ForgeError):  # the body was written once
                found = self._get(path, f"note {note.note_id}")
                if isinstance(found, dict) and found.get("body") != body:
                    self._put_body(path, note, body, hurried=False)

    def _put_body(self, path: str, note: NoteRef, body: str, *, hurried: bool) -> None:
        patience = _HURRIED if hurried else _IDEMPOTENT
        what = f"note {note.note_id}"
        with self._translate_errors(what):
            answer = self.connections.get().http_put(path, post_data={"body": body}, **patience)
            if _read_field(answer, "id") != note.note_id:
                raise GitlabParsingError(f"{what}: no object with an id")

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """Resolve the thread that our note began, if it can be resolved."""
        if thread := self._find_thread(subject, note):
            path = f"{_make_path(subject)}/discussions/{quote(thread, safe='')}"
            what, fields = f"the thread of note {note.note_id}", {"resolved": True}
            with self._translate_errors(what):
                answer = self.connections.get().http_put(path, post_data=fields, **_IDEMPOTENT)
                _require_object(answer, what)

    def _find_thread(self, subject: Subject, note: NoteRef) -> str:
        """Return the id of the thread that our note begins; "" if none, or not resolvable.

        GitLab's list of notes does not name their threads.
        """
        path, what = f"{_make_path(subject)}/discussions", f"the threads of !{subject.mr_iid}"
        for thread in self._list_pages(path, what, "discussions", PAGES, PER_PAGE):
            first = _list_objects(thread.get("notes"), "notes")[:1]
            if first and first[0].get("id") == note.note_id:
                return str(thread.get("id", "")) if first[0].get("resolvable") is True else ""
        return ""

    def acknowledge_note(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Add 👀 to the note. GitLab answers 404 if it is there already: that is a success."""
        place = _make_awards_path(project_id, mr_iid, note_id)
        what = f"a reaction to note {note_id}"
        try:
            with self._translate_errors(what):
                self.connections.get().http_post(place, post_data={"name": _EYES}, **_POSTED)
        except ForgeError:
            if not any(self._find_own_eyes(place, note_id)):
                raise

    def read_votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """Return the votes on one of our notes, among `_AWARD_PAGES` pages of reactions."""
        place = _make_awards_path(project_id, mr_iid, note_id)
        try:
            note = self._get(place.removesuffix("/award_emoji"), f"note {note_id}")
            me = self.get_user_id()
            ours = isinstance(note, dict) and _get_author_id(note) == me
            marker = find_marker(str(note.get("body", ""))) if ours else None
            return Votes(marker, self._count_votes(place, note_id, me)) if marker else None
        except ForgeError as error:
            if error.status != 404:
                raise
            return None

    def _count_votes(self, place: str, note_id: int, me: int) -> dict[int, bool]:
        newest: dict[int, tuple[int, bool]] = {}
        what = f"the reactions to note {note_id}"
        for award in self._list_pages(place, what, "reactions", _AWARD_PAGES, 100):
            up = _VOTES.get(str(award.get("name", "")).partition("_tone")[0])
            user, number = _get_id(award.get("user")), _get_id(award)
            if up is not None and user != me and newest.get(user, (0, up))[0] < number:
                newest[user] = number, up
        return {user: up for user, (_, up) in newest.items()}

    def remove_acknowledgement(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Remove our 👀 from the note."""
        place = _make_awards_path(project_id, mr_iid, note_id)
        for number in list(self._find_own_eyes(place, note_id)):
            try:
                self._remove(f"{place}/{number}", f"the reaction to note {note_id}")
            except ForgeError:
                if number in self._find_own_eyes(place, note_id):
                    raise

    def _remove(self, path: str, what: str) -> None:
        with self._translate_errors(what):
            answer = self.connections.get().http_delete(path, **_IDEMPOTENT)
            if answer.status_code == requests.codes.ok:  # GitLab answers 204, or 202
                raise GitlabParsingError(f"{what}: not removed")

    def _find_own_eyes(self, place: str, note_id: int) -> Iterator[int]:
        me = self.get_user_id()
        found = self._get(place, f"the reactions to note {note_id}", {"per_page": 100})
        for award in _list_objects(found, "reactions"):
            if _read_field(award.get("user"), "id") == me and award.get("name") == _EYES:
                yield _get_id(award)

    def _get_user(self) -> tuple[int, str]:
        if self._me is None:
            found = self._get("/user", "the write token's user")
            self._me = _get_id(found), str(found.get("username", ""))
        return self._me

    def _create(self, subject: Subject, place: str, fields: Json, discussion_id: str) -> NoteRef:
        what = f"a note on !{subject.mr_iid}"
        with self._translate_errors(what):
            answer = self.connections.get().http_post(place, post_data=fields, **_POSTED)
            if isinstance(answer, dict) and "commands_changes" in answer and "id" not in answer:
                text = f"{what}: GitLab made no note of it: the text is only quick actions"
                raise ForgeError(text)
            if isinstance(answer, dict) and isinstance(answer.get("notes"), list):
                answer = next(iter(_list_objects(answer["notes"], "notes")), {})
            return _make_ref(subject, _require_object(answer, what), discussion_id)

    def _list_notes(
        self, subject: Subject, discussion_id: str, pages: int = PAGES
    ) -> Iterator[Json]:
        if discussion_id:
            path = f"{_make_path(subject)}/discussions/{quote(discussion_id, safe='')}"
            thread = self._get(path, f"discussion {discussion_id}")
            yield from _list_objects(_read_field(thread, "notes"), "notes")
            return
        path, what = f"{_make_path(subject)}/notes", f"the notes of !{subject.mr_iid}"
        newest_first = {"sort": "desc", "order_by": "created_at"}
        yield from self._list_pages(path, what, "notes", pages, PER_PAGE, newest_first)

    def _list_pages(
        self, path: str, what: str, name: str, pages: int, per_page: int, query: Json | None = None
    ) -> Iterator[Json]:
        """Yield the objects of a list, whose first `pages` pages are read one by one."""
        for page in range(1, pages + 1):
            wanted = {**(query or {}), "per_page": per_page, "page": page}
            found = _list_objects(self._get(path, what, wanted), name)
            yield from found
            if len(found) < per_page:
                return

    def _get(self, path: str, what: str, query: Json | None = None) -> Any:
        with (
            self._translate_errors(what),
            self.connections.get().http_request(
                "get", path, query_data=query, streamed=True, **_IDEMPOTENT
            ) as response,
        ):
            return decode_json(response, MAX_ANSWER)

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            failure = explain_failure(error, what, "write", self.connections.url)
            raise ForgeError(
                failure.text,
                transient=failure.transient,
                doubtful=failure.doubtful,
                status=failure.status,
            ) from error


def _make_path(subject: Subject) -> str:
    return f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}"


def _make_awards_path(project_id: int, mr_iid: int, note_id: int) -> str:
    return f"/projects/{project_id}/merge_requests/{mr_iid}/notes/{note_id}/award_emoji"


def _make_ref(subject: Subject, note: Json, discussion_id: str) -> NoteRef:
    number = _get_id(note)
    internal = note.get("internal") is True
    return NoteRef(number, discussion_id, f"{subject.web_url}#note_{number}", internal)


def _require_object(answer: object, what: str) -> Json:
    """Return an object that has an id. Raises GitlabParsingError: all else is not GitLab's."""
    if not isinstance(answer, dict) or answer.get("id") is None:
        raise GitlabParsingError(f"{what}: no object with an id")
    return answer


def _make_odd_answer(text: str) -> ForgeError:
    """Make the error for an answer that is not GitLab's."""
    return ForgeError(f"{text}{IN_PLACE}", transient=True, doubtful=True)


def _get_author_id(note: Json) -> object:
    """Return the id of a note's author, or what stands there."""
    return _read_field(note.get("author"), "id")


def _get_id(answer: object) -> int:
    """Return the id of an object. Raises ForgeError if it has none."""
    value = _read_field(answer, "id")
    if not isinstance(value, int):
        raise _make_odd_answer("GitLab's answer has no id")
    return value


def _read_field(answer: object, name: str) -> object:
    """Return a field of an answer; None if it has none, or is not an object."""
    return answer.get(name) if isinstance(answer, dict) else None


def _list_objects(found: object, name: str) -> list[Json]:
    """Return the objects in a list; `name` says what they are. Raises ForgeError if it is none."""
    if not isinstance(found, list):
        raise _make_odd_answer(f"GitLab's answer has no list of {name}")
    return [each for each in found if isinstance(each, dict)]
