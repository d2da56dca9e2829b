"""What stands on the merge request of a scene."""

from tests.simulators.gitlab import Note, Scene
from worker.conversation.context import NoteRef


def note_of(scene: Scene, ref: NoteRef) -> Note:
    """The note as GitLab has it."""
    return next(note for note in scene.mr.list_notes() if note.id == ref.note_id)


def written(scene: Scene) -> list[str]:
    """The bodies of the bot's notes."""
    return [note.body for note in scene.mr.list_notes() if note.author is scene.bot]
