"""Encodes and decodes the JSON of `claim.json` (pure)."""

import json
import math

from worker.core.ports import Claim
from worker.core.stored_keys import to_stored


def encode_claim(claim: Claim) -> bytes:
    """Encode a claim as the content of `claim.json`."""
    return json.dumps(to_stored(claim), sort_keys=True).encode()


def decode_claim(content: bytes) -> Claim:
    """Decode a claim. Raises ValueError; for hostile JSON OverflowError or RecursionError too."""
    data = json.loads(content)
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    owner, trigger_id, until = (data.get(name) for name in ("owner", "trigger_id", "until"))
    fence = data.get("fence", 0)
    if not (isinstance(owner, str) and isinstance(trigger_id, str)):
        raise ValueError("owner and trigger_id must be text")
    if isinstance(until, bool) or not isinstance(until, int | float) or not math.isfinite(until):
        raise ValueError("until must be a time")
    if isinstance(fence, bool) or not isinstance(fence, int) or fence < 0:
        raise ValueError("fence must be a number")
    return Claim(owner, trigger_id, float(until), fence)


def have_same_holder(one: Claim, other: Claim) -> bool:
    """Whether both claims belong to one run; `expires_at` differs after a renewal."""
    return (one.owner, one.trigger_id) == (other.owner, other.trigger_id)
