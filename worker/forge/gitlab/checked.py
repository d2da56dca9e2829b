"""A writer that redacts and checks every body before it is posted."""

from collections.abc import Callable, Iterator

from worker.core.conversation.context import NoteRef, Subject
from worker.core.ports.gitlab import Forge, OwnNote, Position, Votes
from worker.core.session_id import Marker
from worker.forge.defence.finish import finish_body
from worker.forge.defence.lint import add_subject_hosts


class CheckedForge:
    """Writes through `forge`; parts that must not stand in a note become plain text.

    `hosts` are the places that links may lead to, besides the merge request's project; `redact`
    takes the process's own secrets out of a finished body.
    """

    def __init__(self, forge: Forge, hosts: frozenset[str], redact: Callable[[str], str]) -> None:
        self._forge = forge
        self._hosts = hosts
        self._redact = redact

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
        text = self._finish_body(subject, body)
        return self._forge.post(
            subject, text, discussion_id, thread=thread, at=at, internal=internal
        )

    def edit(self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False) -> None:
        """See Forge."""
        self._forge.edit(subject, note, self._finish_body(subject, body), hurried=hurried)

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

    def _finish_body(self, subject: Subject, body: str) -> str:
        return finish_body(body, add_subject_hosts(subject, self._hosts), self._redact).body
