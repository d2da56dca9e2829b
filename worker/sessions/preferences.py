"""What people chose for a merge request or a project, as it is stored. Pure.

preferences/{project_id}/{mr_iid}.json, and preferences/{project_id}/project.json
"""

import json
from collections.abc import Mapping
from typing import Any

from worker.conversation.tiers import Preference, TierModel
from worker.sessions.object_names import PREFERENCES
from worker.settings.models import TIERS
from worker.stored_keys import to_stored


def make_preference_name(project_id: int, mr_iid: int) -> str:
    """Return the name of a merge request's preference, or the project's if `mr_iid` is 0."""
    return f"{PREFERENCES}{project_id}/{mr_iid or 'project'}.json"


def dump_preference(preference: Preference) -> bytes:
    """Encode a preference as JSON."""
    models = {tier: to_stored(served) for tier, served in preference.overrides.items()}
    return json.dumps(to_stored(preference, "overrides", "where") | {"models": models}).encode()


def load_preference(data: bytes | None, where: str) -> Preference:
    """Read the bytes of `dump_preference`; missing or damaged bytes give an empty preference."""
    try:
        return _read_preference(json.loads(data or b"{}"), where)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return Preference(where=where)


def _read_preference(fields: Mapping[str, Any], where: str) -> Preference:
    models = fields.get("models", {})
    overrides = {
        tier: TierModel(str(models[tier]["model"]), str(models[tier]["reasoning"]))
        for tier in TIERS
        if tier in models
    }
    tier = fields.get("tier", "")
    return Preference(
        tier=tier if tier in TIERS else "",
        is_forced=fields.get("forced") is True,
        overrides=overrides,
        set_at=float(fields.get("set_at", 0.0)),
        where=where,
    )
