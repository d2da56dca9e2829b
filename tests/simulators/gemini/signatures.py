"""Thought signatures: which calls must carry one, and where each belongs."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.gemini.protocol import Json, calls, invalid, responses, signs

DUMMIES = frozenset({"context_engineering_is_the_way_to_go", "skip_thought_signature_validator"})
_OURS = b"\x01thought"
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def sign(part: Mapping[str, Any], model: str, route: str) -> str:
    """The signature of `part` by `model` behind `route`; it fits no other part."""
    bare = {name: value for name, value in part.items() if name != "thoughtSignature"}
    # Servers don't see the order of fields, so the signature must not depend on it.
    text = json.dumps([model, route, bare], sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b64encode(_OURS + digest).decode()


def check(contents: Sequence[Json], model: str, route: str) -> None:
    """Refuse what was not signed here, and calls of this turn without one. Raises Refused."""
    for number, content in enumerate(contents):
        for at, part in enumerate(content["parts"]):
            if "thoughtSignature" in part:
                _check_one(part, f"contents[{number}].parts[{at}]", model, route)
    if signs(model):
        _check_turn(contents)


def _check_one(part: Json, path: str, model: str, route: str) -> None:
    signature = part["thoughtSignature"]
    if not isinstance(signature, str) or not _BASE64.fullmatch(signature) or len(signature) % 4:
        raise invalid(
            f"Invalid value at '{path}.thought_signature' (TYPE_BYTES), Base64 decoding failed for "
            f'"{signature}"'
        )
    given = _decoded(signature)
    if given in map(_decoded, DUMMIES):
        if "functionCall" not in part:
            raise invalid(f"{path}: Invalid thought signature.")
    elif not given.startswith(_OURS):
        raise invalid(f"{path}: Corrupted thought signature.")
    elif given != _decoded(sign(part, model, route)):
        raise invalid(f"{path}: Invalid thought signature.")


def _decoded(signature: str) -> bytes:
    """Bytes may come in either of the two alphabets."""
    return base64.b64decode(signature.replace("-", "+").replace("_", "/"))


def _check_turn(contents: Sequence[Json]) -> None:
    """The current turn is everything after the last text of a user."""
    for number in range(len(contents) - 1, -1, -1):
        content = contents[number]
        if content["role"] == "user" and not responses(content):
            return
        if content["role"] == "model" and calls(content):
            _check_step(content, number)


def _check_step(content: Json, number: int) -> None:
    """Of parallel calls only the first is signed."""
    signed = ["thoughtSignature" in part for part in content["parts"] if "functionCall" in part]
    if not signed[0]:
        name = calls(content)[0]["name"]
        raise invalid(
            "Function call is missing a thought_signature in functionCall parts. This is required "
            "for tools to work correctly, and missing thought_signature may lead to degraded model "
            f"performance. Additional data, function call `default_api:{name}` , position "
            f"{number + 1}."
        )
    if any(signed[1:]):
        raise invalid(f"contents[{number}]: Invalid thought signature.")
