"""GitLab, written to: notes only, with the write token, and never the same note twice."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import requests

from worker.core.conversation.context import NoteRef, Subject
from worker.core.ports.gitlab import OwnNote, Position, Votes
from worker.core.session_id import Marker, find_marker
from worker.errors import ForgeError
from worker.gitlab_client import FOREIGN, RETRIES, TIMEOUT, Connections, decoded, explain

PAGES = 100
PER_PAGE = 20
"""How many notes are searched for our own, newest first: small pages, for notes can be huge."""

OWN_PAGES = 15
"""How far back `own` looks."""

HURRY = (2.0, 4.0)
"""Seconds to connect and to read where a write may as well be left out."""

SETTLE = 1.0
"""Seconds a lost POST is given to come to rest in GitLab before its note is looked for."""

MAX_ANSWER = 128 * 1024 * 1024
"""Bytes of one answer: a page of the longest notes that GitLab lets people write."""

EYES = "eyes"
"""The emoji that says "seen"."""

VOTES = {"thumbsup": True, "thumbsdown": False}
"""The emoji that are votes; GitLab adds `_tone1` and the like to their names."""

AWARD_PAGES = 10

Json = dict[str, Any]


class GitLabForge:
    """The Forge over GitLab; safe to share by threads. A body to `post` begins with its marker."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout: tuple[float, float] = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connections = Connections(url, token, timeout)
        self._sleep = sleep
        self._me: tuple[int, str] | None = None

    def me(self) -> int:
        """The write token's user, asked for once."""
        return self._user()[0]

    def handle(self) -> str:
        """Its user name."""
        return self._user()[1]

    def find(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Our own note that begins with `marker`: text in other people's notes is not believed."""
        me = self.me()
        for note in self._notes(subject, discussion_id):
            if _author(note) == me and find_marker(str(note.get("body", ""))) == marker:
                return _ref(subject, note, discussion_id)
        return None

    def own(self, subject: Subject) -> Iterator[OwnNote]:
        """Our own notes that begin with a marker, of the newest `OWN_PAGES * PER_PAGE`."""
        me = self.me()
        for note in self._notes(subject, "", OWN_PAGES):
            body = str(note.get("body", ""))
            marker = find_marker(body) if _author(note) == me else None
            if marker:
                unresolved = note.get("resolvable") is True and note.get("resolved") is not True
                internal = note.get("internal") is True
                yield OwnNote(_ref(subject, note, ""), marker, body, unresolved, internal)

    def post(
        self,
        subject: Subject,
        body: str,
        discussion_id: str,
        *,
        thread: bool = False,
        at: Position | None = None,
        internal: bool = False,
    ) -> NoteRef:
        """A new note. An answer that got lost is looked for before the one second attempt."""
        # GitLab's threads know no `internal`: they would be public without a word.
        begins = not internal and (thread or at is not None)
        place = _place(subject, discussion_id, begins=begins)
        fields: Json = {"body": body} | ({"position": _position(at)} if at else {})
        made = self._created(
            subject, place, fields | ({"internal": True} if internal else {}), discussion_id
        )
        if internal and not made.internal:
            self._remove(f"{_path(subject)}/notes/{made.note_id}", f"note {made.note_id}")
            raise ForgeError(
                f"a note on !{subject.mr_iid}: GitLab does not make it internal, and more people "
                "read the merge request than its job logs: make the bot's user a Reporter"
            )
        return made

    def _created(self, subject: Subject, place: str, fields: Json, discussion_id: str) -> NoteRef:
        marker = find_marker(str(fields["body"]))
        try:
            return self._create(subject, place, fields, discussion_id)
        except ForgeError as error:
            if not error.transient or marker is None:
                raise
        self._sleep(SETTLE)
        found = self.find(subject, marker, discussion_id)
        return found or self._create(subject, place, fields, discussion_id)

    def edit(self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False) -> None:
        """Replace a note's body. The same twice is the same, so this is retried."""
        path = f"{_path(subject)}/notes/{note.note_id}"
        # Typed as one number, but handed to requests, which takes (connect, read).
        patience: Json = {"retry_transient_errors": True, "max_retries": RETRIES}
        if hurried:
            patience = {
                "timeout": HURRY,
                "retry_transient_errors": False,
                "obey_rate_limit": False,
            }
        with _writing(f"note {note.note_id}"):
            self._connections.get().http_put(path, post_data={"body": body}, **patience)

    def resolve(self, subject: Subject, note: NoteRef) -> None:
        """Resolve the thread our note began; one that nobody can resolve is left as it is."""
        thread = self._begun(subject, note)
        if thread:
            path = f"{_path(subject)}/discussions/{quote(thread, safe='')}"
            with _writing(f"the thread of note {note.note_id}"):
                self._connections.get().http_put(
                    path,
                    post_data={"resolved": True},
                    retry_transient_errors=True,
                    max_retries=RETRIES,
                )

    def _begun(self, subject: Subject, note: NoteRef) -> str:
        """The id of the thread that our note begins; notes in a list don't name theirs."""
        for page in range(1, PAGES + 1):
            query = {"per_page": PER_PAGE, "page": page}
            what = f"the threads of !{subject.mr_iid}"
            found = self._get(f"{_path(subject)}/discussions", what, query)
            threads = _objects({"discussions": found}, "discussions")
            for thread in threads:
                first = _objects(thread, "notes")[:1]
                if first and first[0].get("id") == note.note_id:
                    return str(thread.get("id", "")) if first[0].get("resolvable") is True else ""
            if len(threads) < PER_PAGE:
                return ""
        return ""

    def acknowledge(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """A pair of eyes on the note. GitLab's 404 for a second one is a success."""
        place = _awards(project_id, mr_iid, note_id)
        what = f"a reaction to note {note_id}"
        try:
            with _writing(what):
                self._connections.get().http_post(
                    place,
                    post_data={"name": EYES},
                    retry_transient_errors=False,
                    max_retries=RETRIES,
                )
        except ForgeError:
            if not any(self._eyes(place, note_id)):
                raise

    def votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """The votes on one of our notes, of its first `AWARD_PAGES` pages of reactions."""
        place = _awards(project_id, mr_iid, note_id)
        try:
            note = self._get(place.removesuffix("/award_emoji"), f"note {note_id}")
            me = self.me()
            ours = isinstance(note, dict) and _author(note) == me
            marker = find_marker(str(note.get("body", ""))) if ours else None
            return Votes(marker, self._votes(place, note_id, me)) if marker else None
        except ForgeError as error:
            if error.status != 404:
                raise
            return None

    def _votes(self, place: str, note_id: int, me: int) -> dict[int, bool]:
        newest: dict[int, tuple[int, bool]] = {}
        for page in range(1, AWARD_PAGES + 1):
            query = {"per_page": 100, "page": page}
            found = self._get(place, f"the reactions to note {note_id}", query)
            awards = _objects({"reactions": found}, "reactions")
            for award in awards:
                up = VOTES.get(str(award.get("name", "")).partition("_tone")[0])
                user, number = _number(award.get("user"), "id"), _number(award, "id")
                if up is not None and user != me and newest.get(user, (0, up))[0] < number:
                    newest[user] = number, up
            if len(awards) < 100:
                break
        return {user: up for user, (_, up) in newest.items()}

    def forget(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Take our pair of eyes off the note."""
        place = _awards(project_id, mr_iid, note_id)
        for number in list(self._eyes(place, note_id)):
            try:
                self._remove(f"{place}/{number}", f"the reaction to note {note_id}")
            except ForgeError:
                if number in self._eyes(place, note_id):
                    raise

    def _remove(self, path: str, what: str) -> None:
        with _writing(what):
            self._connections.get().http_delete(
                path, retry_transient_errors=True, max_retries=RETRIES
            )

    def _eyes(self, place: str, note_id: int) -> Iterator[int]:
        me = self.me()
        found = self._get(place, f"the reactions to note {note_id}", {"per_page": 100})
        for award in _objects({"reactions": found}, "reactions"):
            user = award.get("user")
            ours = isinstance(user, dict) and user.get("id") == me
            if ours and award.get("name") == EYES:
                yield _number(award, "id")

    def _user(self) -> tuple[int, str]:
        if self._me is None:
            found = self._get("/user", "the write token's user")
            self._me = _number(found, "id"), str(found.get("username", ""))
        return self._me

    def _create(self, subject: Subject, place: str, fields: Json, discussion_id: str) -> NoteRef:
        what = f"a note on !{subject.mr_iid}"
        with _writing(what):
            # A rate-limited POST was not processed, so it may be repeated; any other may have been.
            made = self._connections.get().http_post(
                place, post_data=fields, retry_transient_errors=False, max_retries=RETRIES
            )
        if isinstance(made, dict) and isinstance(made.get("notes"), list):
            made = next(iter(_objects(made, "notes")), {})
        if isinstance(made, requests.Response) or "id" not in made:
            raise ForgeError(f"{what}: GitLab made no note of it: the text is only quick actions")
        return _ref(subject, made, discussion_id)

    def _notes(self, subject: Subject, discussion_id: str, pages: int = PAGES) -> Iterator[Json]:
        if discussion_id:
            path = f"{_path(subject)}/discussions/{quote(discussion_id, safe='')}"
            yield from _objects(self._get(path, f"discussion {discussion_id}"), "notes")
            return
        for page in range(1, pages + 1):
            query = {"sort": "desc", "order_by": "created_at", "per_page": PER_PAGE, "page": page}
            found = self._get(f"{_path(subject)}/notes", f"the notes of !{subject.mr_iid}", query)
            notes = _objects({"notes": found}, "notes")
            yield from notes
            if len(notes) < PER_PAGE:
                return

    def _get(self, path: str, what: str, query: Json | None = None) -> Any:
        with (
            _writing(what),
            self._connections.get().http_request(
                "get",
                path,
                query_data=query,
                streamed=True,
                retry_transient_errors=True,
                max_retries=RETRIES,
            ) as response,
        ):
            return decoded(response, MAX_ANSWER)


@contextmanager
def _writing(what: str) -> Iterator[None]:
    try:
        yield
    except FOREIGN as error:
        failure = explain(error, what, "write")
        raise ForgeError(
            failure.text, transient=failure.transient, status=failure.status
        ) from error


def _path(subject: Subject) -> str:
    return f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}"


def _place(subject: Subject, discussion_id: str, *, begins: bool) -> str:
    if discussion_id:
        return f"{_path(subject)}/discussions/{quote(discussion_id, safe='')}/notes"
    return f"{_path(subject)}/{'discussions' if begins else 'notes'}"


def _position(at: Position) -> Json:
    lines = {"new_line": at.new_line} | ({"old_line": at.old_line} if at.old_line else {})
    return {
        "position_type": "text",
        "base_sha": at.base_sha,
        "start_sha": at.start_sha,
        "head_sha": at.head_sha,
        "old_path": at.old_path,
        "new_path": at.new_path,
        **lines,
    }


def _awards(project_id: int, mr_iid: int, note_id: int) -> str:
    return f"/projects/{project_id}/merge_requests/{mr_iid}/notes/{note_id}/award_emoji"


def _ref(subject: Subject, note: Json, discussion_id: str) -> NoteRef:
    number = _number(note, "id")
    internal = note.get("internal") is True
    return NoteRef(number, discussion_id, f"{subject.web_url}#note_{number}", internal)


def _author(note: Json) -> object:
    author = note.get("author")
    return author.get("id") if isinstance(author, dict) else None


def _number(answer: object, name: str) -> int:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, int):
        raise ForgeError(f"GitLab's answer has no {name}: is gitlab.url GitLab's address?")
    return value


def _objects(answer: object, name: str) -> list[Json]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ForgeError(f"GitLab's answer has no list of {name}: is gitlab.url GitLab's address?")
    return [each for each in found if isinstance(each, dict)]
