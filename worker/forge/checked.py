"""A forge that looks at every body once more before it is written, whoever made it."""

import logging
from collections.abc import Iterator

from worker.core.context import NoteRef, Subject
from worker.core.gitlab import Forge, OwnNote, Position, Votes
from worker.core.identity import Marker
from worker.forge.lint import hosts_of, problems, safe

log = logging.getLogger("sandpiper.forge")


class CheckedForge:
    """`forge`, but a body that does not pass `lint` is logged and a harmless one written instead.

    `hosts` are the places that links may lead to, besides GitLab itself.
    """

    def __init__(self, forge: Forge, hosts: frozenset[str]) -> None:
        self._forge = forge
        self._hosts = hosts

    def me(self) -> int:
        """See Forge."""
        return self._forge.me()

    def handle(self) -> str:
        """See Forge."""
        return self._forge.handle()

    def find(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """See Forge."""
        return self._forge.find(subject, marker, discussion_id)

    def own(self, subject: Subject) -> Iterator[OwnNote]:
        """See Forge."""
        return self._forge.own(subject)

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
        """See Forge."""
        text = self._passed(subject, body)
        return self._forge.post(
            subject, text, discussion_id, thread=thread, at=at, internal=internal
        )

    def edit(self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False) -> None:
        """See Forge."""
        self._forge.edit(subject, note, self._passed(subject, body), hurried=hurried)

    def resolve(self, subject: Subject, note: NoteRef) -> None:
        """See Forge."""
        self._forge.resolve(subject, note)

    def acknowledge(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """See Forge."""
        self._forge.acknowledge(project_id, mr_iid, note_id)

    def votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """See Forge."""
        return self._forge.votes(project_id, mr_iid, note_id)

    def forget(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """See Forge."""
        self._forge.forget(project_id, mr_iid, note_id)

    def _passed(self, subject: Subject, body: str) -> str:
        found = problems(body, hosts_of(subject, self._hosts))
        if not found:
            return body
        log.error("a note on !%d is kept back: %s", subject.mr_iid, "; ".join(found)[:500])
        return safe(body)
