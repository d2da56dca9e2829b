"""Writes to GitLab with the write token: notes and reactions only, and no note twice."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from urllib.parse import quote

import requests
from gitlab.exceptions import GitlabParsingError

from worker.conversation.context import NoteRef, Subject
from worker.errors import ForgeError
from worker.gitlab.client import TIMEOUT
from worker.gitlab.ports import OwnNote, Votes
from worker.gitlab.write.api import (
    IDEMPOTENT,
    LATE,
    POSTED,
    SETTLE,
    Json,
    WriteClient,
    get_author_id,
    get_id,
    list_objects,
    read_field,
    require_object,
)
from worker.safety.markdown import Marker, find_marker
from worker.verdict.diffs import Position

PAGES = 100
PER_PAGE = 20
"""The newest `PAGES * PER_PAGE` notes are searched for our own. Pages are small, as notes can be
huge."""

OWN_PAGES = 15
"""How many pages `list_own_notes` reads."""


_EYES = "eyes"

_VOTES = {"thumbsup": True, "thumbsdown": False}
"""The emoji that are votes; GitLab may add `_tone1` and the like to their names."""

_AWARD_PAGES = 10

_HURRIED: Json = {"timeout": (2, 4), "retry_transient_errors": False, "obey_rate_limit": False}
"""Options of a write that may be skipped; of `timeout` requests takes (connect, read)."""


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
        self.client = WriteClient(url, token, timeout)
        self.connections = self.client.connections
        self._sleep = sleep
        self._late_edits: set[int] = set()  # notes with an edit that may still be carried out

    def get_user_id(self) -> int:
        """Return the id of the write token's user; GitLab is asked once."""
        return self.client.get_user()[0]

    def get_user_name(self) -> str:
        """Return the user name of the write token's user."""
        return self.client.get_user()[1]

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Return our own note that begins with `marker`; notes of others are ignored."""
        return next(self._find_all(subject, marker, discussion_id), None)

    def _find_all(self, subject: Subject, marker: Marker, discussion_id: str) -> Iterator[NoteRef]:
        me = self.get_user_id()
        for note in self._list_notes(subject, discussion_id):
            if get_author_id(note) == me and find_marker(str(note.get("body", ""))) == marker:
                yield _make_ref(subject, note, discussion_id)

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """Yield our own notes with a marker, among the newest `OWN_PAGES * PER_PAGE`."""
        me = self.get_user_id()
        for note in self._list_notes(subject, "", OWN_PAGES):
            body = str(note.get("body", ""))
            marker = find_marker(body) if get_author_id(note) == me else None
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
            pauses = SETTLE if error.status in LATE else SETTLE[:1]
        for pause in pauses:
            self._sleep(pause)
            if found := self.find_note(subject, marker, discussion_id):
                return found
        ref = self._create(subject, place, fields, discussion_id)
        # GitLab may have made the first note late: the oldest one stays.
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
            if hurried and error.status in LATE:
                self._late_edits.add(note.note_id)
            raise
        if not hurried and note.note_id in self._late_edits:
            self._late_edits.discard(note.note_id)
            for pause in SETTLE:
                self._sleep(pause)
                with suppress(ForgeError):  # the body was written once
                    found = self.client.get(path, f"note {note.note_id}")
                    if isinstance(found, dict) and found.get("body") != body:
                        self._put_body(path, note, body, hurried=False)

    def _put_body(self, path: str, note: NoteRef, body: str, *, hurried: bool) -> None:
        patience = _HURRIED if hurried else IDEMPOTENT
        what = f"note {note.note_id}"
        with self.client.translate_errors(what):
            answer = self.connections.get().http_put(path, post_data={"body": body}, **patience)
            if read_field(answer, "id") != note.note_id:
                raise GitlabParsingError(f"{what}: no object with an id")

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """Resolve the thread that our note began, if it can be resolved."""
        # GitLab's list of notes does not name their threads.
        path, what = f"{_make_path(subject)}/discussions", f"the threads of !{subject.mr_iid}"
        for thread in self.client.list_pages(path, what, "discussions", PAGES, PER_PAGE):
            first = next(iter(list_objects(thread.get("notes"), "notes")), {})
            if first.get("id") != note.note_id:
                continue
            number = str(thread.get("id", ""))
            if number and first.get("resolvable") is True:
                one, what = f"{path}/{quote(number, safe='')}", f"the thread of note {note.note_id}"
                with self.client.translate_errors(what):
                    fields = {"resolved": True}
                    answer = self.connections.get().http_put(one, post_data=fields, **IDEMPOTENT)
                    require_object(answer, what)
            return

    def acknowledge_note(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Add 👀 to the note. GitLab answers 404 if it is there already: that is a success."""
        place = _make_awards_path(project_id, mr_iid, note_id)
        what = f"a reaction to note {note_id}"
        try:
            with self.client.translate_errors(what):
                self.connections.get().http_post(place, post_data={"name": _EYES}, **POSTED)
        except ForgeError:
            if not any(self._find_own_eyes(place, note_id)):
                raise

    def read_votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """Return the votes on one of our notes, among `_AWARD_PAGES` pages of reactions."""
        place = _make_awards_path(project_id, mr_iid, note_id)
        try:
            note = self.client.get(place.removesuffix("/award_emoji"), f"note {note_id}")
            me = self.get_user_id()
            ours = isinstance(note, dict) and get_author_id(note) == me
            marker = find_marker(str(note.get("body", ""))) if ours else None
            if not marker:
                return None
            newest: dict[int, tuple[int, bool]] = {}
            what = f"the reactions to note {note_id}"
            for award in self.client.list_pages(place, what, "reactions", _AWARD_PAGES, 100):
                up = _VOTES.get(str(award.get("name", "")).partition("_tone")[0])
                user, number = get_id(award.get("user")), get_id(award)
                if up is not None and user != me and newest.get(user, (0, up))[0] < number:
                    newest[user] = number, up
            return Votes(marker, {user: up for user, (_, up) in newest.items()})
        except ForgeError as error:
            if error.status != 404:
                raise
            return None

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
        with self.client.translate_errors(what):
            answer = self.connections.get().http_delete(path, **IDEMPOTENT)
            if answer.status_code == requests.codes.ok:  # GitLab answers 204, or 202
                raise GitlabParsingError(f"{what}: not removed")

    def _find_own_eyes(self, place: str, note_id: int) -> Iterator[int]:
        me = self.get_user_id()
        found = self.client.get(place, f"the reactions to note {note_id}", {"per_page": 100})
        for award in list_objects(found, "reactions"):
            if read_field(award.get("user"), "id") == me and award.get("name") == _EYES:
                yield get_id(award)

    def _create(self, subject: Subject, place: str, fields: Json, discussion_id: str) -> NoteRef:
        what = f"a note on !{subject.mr_iid}"
        with self.client.translate_errors(what):
            answer = self.connections.get().http_post(place, post_data=fields, **POSTED)
            if isinstance(answer, dict) and "commands_changes" in answer and "id" not in answer:
                text = f"{what}: GitLab made no note of it: the text is only quick actions"
                raise ForgeError(text)
            if isinstance(answer, dict) and isinstance(answer.get("notes"), list):
                answer = next(iter(list_objects(answer["notes"], "notes")), {})
            return _make_ref(subject, require_object(answer, what), discussion_id)

    def _list_notes(
        self, subject: Subject, discussion_id: str, pages: int = PAGES
    ) -> Iterator[Json]:
        if discussion_id:
            path = f"{_make_path(subject)}/discussions/{quote(discussion_id, safe='')}"
            thread = self.client.get(path, f"discussion {discussion_id}")
            yield from list_objects(read_field(thread, "notes"), "notes")
            return
        path, what = f"{_make_path(subject)}/notes", f"the notes of !{subject.mr_iid}"
        newest_first = {"sort": "desc", "order_by": "created_at"}
        yield from self.client.list_pages(path, what, "notes", pages, PER_PAGE, newest_first)


def _make_path(subject: Subject) -> str:
    return f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}"


def _make_awards_path(project_id: int, mr_iid: int, note_id: int) -> str:
    return f"/projects/{project_id}/merge_requests/{mr_iid}/notes/{note_id}/award_emoji"


def _make_ref(subject: Subject, note: Json, discussion_id: str) -> NoteRef:
    number = get_id(note)
    internal = note.get("internal") is True
    return NoteRef(number, discussion_id, f"{subject.web_url}#note_{number}", internal)
