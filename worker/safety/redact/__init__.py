"""Removes secrets from text, once, where the text comes in.

It removes five things: the process's own secrets in every form in which they may appear; private
keys; well-known tokens, and credentials in known places; values of keys whose name suggests a
secret; and tokens in Base64. A mark such as `[redacted: gitlab-token]` replaces each; the number of
lines never changes, and redacting twice changes nothing more. Everything works on bytes: in UTF-8,
ASCII bytes never occur inside other characters, and data that is not text passes through.
"""

import re
from collections.abc import Iterable

from worker.safety.redact.base64_tokens import BASE64_RULES
from worker.safety.redact.json_keys import JSON_KEY_RULES
from worker.safety.redact.known import MIN_SECRET, KnownSecrets
from worker.safety.redact.named_values import NAMED_RULES
from worker.safety.redact.places import PLACE_RULES
from worker.safety.redact.private_keys import find_private_keys
from worker.safety.redact.rules import Scanner
from worker.safety.redact.spans import mark, replace_spans
from worker.safety.redact.tokens import TOKEN_RULES

__all__ = ["KINDS", "MIN_SECRET", "Redactor", "mark"]

_RULES = (*TOKEN_RULES, *PLACE_RULES, *BASE64_RULES, *JSON_KEY_RULES, *NAMED_RULES)
_SCANNER = Scanner(_RULES)

KINDS = tuple(dict.fromkeys([*(rule.kind for rule in _RULES), "private-key", "secret"]))
"""Every kind that a mark may name."""

_WIDE = re.compile(rb"(?:[^\0]\0){8,}+[^\0]?|(?:[^\0]\0{3}){8,}+[^\0]?")
"""Text in UTF-16 or UTF-32: characters of one byte each, separated by one or three zero bytes."""


class Redactor:
    """Removes secrets from text. It has no mutable state; its `repr` shows no secrets."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` are the process's own; those shorter than `MIN_SECRET` are ignored."""
        self._known = KnownSecrets(secrets)

    def redact_text(self, text: str) -> str:
        """Return `text` with every secret replaced."""
        return self.redact_data(text.encode("utf-8", "surrogatepass")).decode(
            "utf-8", "surrogatepass"
        )

    def redact_data(self, data: bytes) -> bytes:
        """Return `data` with every secret replaced.

        Its encoding may be any that contains ASCII, or UTF-16 or UTF-32.
        """
        if b"\0" in data:
            data = _WIDE.sub(self._redact_wide, data)
        return self._redact_narrow(data)

    def _redact_wide(self, found: re.Match[bytes]) -> bytes:
        """Redact wide characters as if each were a single byte."""
        wide = found[0]
        clean = self._redact_narrow(narrow := wide.replace(b"\0", b""))
        if clean == narrow:
            return wide
        zeros = b"\0" * (wide.find(narrow[1:2], 1) - 1)
        spread = zeros.join(clean[at : at + 1] for at in range(len(clean)))
        return spread + zeros if wide.endswith(b"\0") else spread

    def _redact_narrow(self, data: bytes) -> bytes:
        data = self._known.redact(data)
        lowered = data.lower()
        return replace_spans(data, [*find_private_keys(data), *_SCANNER.find(data, lowered)])
