"""Encrypted reasoning: only the model that wrote it can read it."""

import hashlib
import re
from typing import Any

from tests.simulators.openai.protocol import Json, Refused, invalid

_SEALED = re.compile(r"gAAAA([0-9a-f]{16})([0-9a-f]{32})")


def seal(model: str, item_id: str) -> str:
    """The encrypted content of a reasoning item."""
    made_by = hashlib.sha256(model.encode()).hexdigest()[:16]
    return f"gAAAA{made_by}{_mac(made_by, item_id)}"


def check(item: Json) -> None:
    """Refuse reasoning that cannot be read. Raises Refused."""
    sealed = item.get("encrypted_content")
    if not sealed:
        raise Refused(
            404,
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set "
            "to false. Try again with `store` set to true, or remove this item from your input.",
            param="input",
        )
    found = _SEALED.fullmatch(sealed)
    if not found or found[2] != _mac(found[1], item["id"]):
        raise invalid(
            f"The encrypted content {sealed[:8]}... could not be verified. Reason: Encrypted "
            "content could not be decrypted or parsed.",
            code="invalid_encrypted_content",
        )


def withheld(model: str, items: list[Json]) -> list[Json]:
    """The reasoning that the model does not get to see, as the answer tells it."""
    mine = hashlib.sha256(model.encode()).hexdigest()[:16]
    return [
        {
            "id": item["id"],
            "action": "removed",
            "reason": "model_mismatch",
            "type": "reasoning",
        }
        for item in items
        if item.get("type") == "reasoning" and not _made_by(mine, item)
    ]


def _made_by(mine: str, item: Json) -> bool:
    return str(item["encrypted_content"]).startswith(f"gAAAA{mine}")


def _mac(made_by: str, item_id: Any) -> str:
    return hashlib.sha256(f"{made_by} {item_id}".encode()).hexdigest()[:32]
