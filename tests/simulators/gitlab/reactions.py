"""Makes the payload of an Emoji Hook.

See https://docs.gitlab.com/user/project/integrations/webhook_events/#emoji-events.
"""

from worker.lab.gitlab.state import Note, User
from worker.lab.gitlab.views import Json, make_note_payload


def make_emoji_payload(note: Note, who: User, name: str, award_id: int, action: str) -> Json:
    """Make an Emoji Hook's body; `action` is "award" or "revoke"."""
    noted = make_note_payload(note)
    return noted | {
        "object_kind": "emoji",
        "event_type": action,
        "user": {"id": who.id, "name": who.name, "username": who.username},
        "object_attributes": {
            "user_id": who.id,
            "id": award_id,
            "name": name,
            "awardable_type": "Note",
            "awardable_id": note.id,
            "action": action,
        },
        "note": {key: noted["object_attributes"][key] for key in ("id", "note", "discussion_id")},
    }
