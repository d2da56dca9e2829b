"""Signs thinking blocks together with everything before them, as newer models do."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from worker.lab.anthropic.protocol import (
    Json,
    encode_compact,
    list_blocks,
    make_invalid,
    merge_messages,
    remove_mark,
)

_BINDING = re.compile(r"(fable-5-1|mythos-5-1|(opus|sonnet|haiku)-5-5)")
_THINKING = frozenset({"thinking", "redacted_thinking"})


def binds_thinking(model: str) -> bool:
    """Whether the model's signatures include the prefix."""
    return bool(_BINDING.search(model))


def sign_thinking(body: Mapping[str, Any]) -> str:
    """Make the signature of a thinking block in the answer to `body`."""
    return _compute_signature(body, list(merge_messages(body["messages"])))


def check_thinking(body: Mapping[str, Any]) -> None:
    """Raise Refused for thinking that was signed with another prefix."""
    sides = list(merge_messages(body["messages"]))
    for i, (_, content) in enumerate(sides):
        signed = [at for at, block in enumerate(content) if block["type"] == "thinking"]
        for j in signed:
            _check_one(body, sides[:i], f"messages.{i}.content.{j}", content[j]["signature"])


def _check_one(
    body: Mapping[str, Any], before: Sequence[tuple[str, list[Json]]], path: str, signature: str
) -> None:
    if not re.fullmatch(r"sig_[0-9a-f]{40}", signature):
        raise make_invalid(f"{path}: Invalid `signature` in `thinking` block")
    if binds_thinking(str(body["model"])) and signature != _compute_signature(body, before):
        raise make_invalid(
            f"{path}: Invalid `signature` in `thinking` block. The block is bound to a different "
            "conversation. Remove the block, or set "
            '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        )


def _compute_signature(body: Mapping[str, Any], before: Sequence[tuple[str, list[Json]]]) -> str:
    """Compute a signature without cache marks and earlier thinking, which may have been removed."""
    digest = hashlib.sha256(encode_compact([remove_mark(tool) for tool in body.get("tools", ())]))
    digest.update(
        encode_compact([remove_mark(block) for block in list_blocks(body.get("system", ()))])
    )
    for role, content in before:
        kept = [remove_mark(block) for block in content if block["type"] not in _THINKING]
        digest.update(role.encode() + encode_compact(kept))
    return f"sig_{digest.hexdigest()[:40]}"
