"""Removes secrets from text, once, where the text comes in.

It removes five things: the process's own secrets in every form in which they may appear; private
keys; well-known tokens, and credentials in known places; values of keys whose name suggests a
secret; and tokens in Base64. A mark such as `[redacted: gitlab-token]` replaces each; the number of
lines never changes, and redacting twice changes nothing more. Everything works on bytes: in UTF-8,
ASCII bytes never occur inside other characters, and data that is not text passes through.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from worker.safety.redact.named_values import NAMED_RULES
from worker.safety.redact.places import JSON_KEY_RULES, PLACE_RULES
from worker.safety.redact.private_keys import find_private_keys
from worker.safety.redact.rules import Removed, Rule, Span, mark
from worker.safety.redact.tokens import BASE64_RULES, TOKEN_RULES, base64_core

__all__ = ["KINDS", "MIN_SECRET", "Redaction", "Redactor", "Removed", "mark"]


class _Scanner:
    """Finds the secrets of many rules in one pass over a text."""

    __slots__ = ("_engine", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        hints: dict[bytes, list[tuple[int, Rule]]] = {}
        for rank, rule in enumerate(rules):
            for hint in rule.hints:
                hints.setdefault(hint, []).append((rank, rule))
        self._rules = tuple(hints.values())
        self._engine = BytesAhoCorasick(list(hints), MatchKind.Standard, Implementation.DFA)

    def find(self, data: bytes) -> Iterator[Span]:
        """Yield every secret in `data`."""
        ends: dict[int, int] = {}
        hints = self._engine.find_matches_as_indexes(data.lower(), overlapping=True)
        for hint, at, _ in hints:
            for rank, rule in self._rules[hint]:
                if at >= ends.get(rank, 0):
                    for start, end in rule.find(data, at):
                        ends[rank] = end
                        yield Span(start, end, rank, rule.kind)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; overlapping ones become one span of the longest one's kind."""
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            length = span.end - span.start
            kind = span if (-length, span.rank) < (-longest, last.rank) else last
            longest = max(longest, length)
            end = max(last.end, span.end)
            merged[-1] = Span(last.start, end, kind.rank, kind.kind)
        else:
            merged.append(span)
            longest = span.end - span.start
    return merged


def _replace_spans(data: bytes, spans: Iterable[Span]) -> bytes:
    """Replace each span by a mark and the line ends that it had. They are in order, and none
    overlaps the next one: see `_merge_spans`."""
    parts: list[bytes] = []
    at = 0
    for span in spans:
        ends = b"\n" * data.count(b"\n", span.start, span.end)
        parts += [data[at : span.start], mark(span.kind).encode(), ends]
        at = span.end
    return b"".join([*parts, data[at:]]) if parts else data


_RULES = (*TOKEN_RULES, *PLACE_RULES, *BASE64_RULES, *JSON_KEY_RULES, *NAMED_RULES)
_SCANNER = _Scanner(_RULES)

KINDS = tuple(dict.fromkeys([*(rule.kind for rule in _RULES), "private-key", "secret"]))
"""Every kind that a mark may name."""

_WIDE = re.compile(rb"(?:[^\0]\0){8,}+[^\0]?|(?:[^\0]\0{3}){8,}+[^\0]?")
"""Text in UTF-16 or UTF-32: characters of one byte each, separated by one or three zero bytes."""

_MARK = re.compile(rb"\[redacted: [a-z0-9-]{1,40}\]")


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text without its secrets: the clean `data`, and the `removals`, the secrets that were in
    it, in no certain order. A mark that stood there before is none of them."""

    data: bytes
    removals: tuple[Removed, ...] = ()


class Redactor:
    """Removes secrets from text. It has no mutable state; its `repr` shows no secrets."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` are the process's own; those shorter than `MIN_SECRET` are ignored."""
        self._known = _KnownSecrets(secrets)

    def redact_text(self, text: str) -> str:
        """Return `text` with every secret replaced."""
        return self.redact_data(text.encode("utf-8", "surrogatepass")).decode(
            "utf-8", "surrogatepass"
        )

    def redact_data(self, data: bytes) -> bytes:
        """Return `data` with every secret replaced: see `remove_secrets`."""
        return self.remove_secrets(data).data

    def remove_secrets(self, data: bytes) -> Redaction:
        """Return `data` with every secret replaced, and the secrets.

        Its encoding may be any that contains ASCII, or UTF-16 or UTF-32.
        """
        removed: list[Removed] = []

        def redact(text: bytes) -> bytes:
            text = self._known.redact(text, removed)
            spans = _merge_spans([*find_private_keys(text), *_SCANNER.find(text)])
            secrets = (Removed(span.kind, text[span.start : span.end]) for span in spans)
            removed.extend(each for each in secrets if not _MARK.fullmatch(each.secret))
            return _replace_spans(text, spans)

        if b"\0" in data:
            data = _WIDE.sub(lambda found: _redact_wide(found[0], redact), data)
        return Redaction(redact(data), tuple(removed))


def _redact_wide(wide: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    """Redact wide characters as if each were a single byte."""
    clean = redact(narrow := wide.replace(b"\0", b""))
    if clean == narrow:
        return wide
    zeros = b"\0" * (wide.find(narrow[1:2], 1) - 1)
    spread = zeros.join(clean[at : at + 1] for at in range(len(clean)))
    return spread + zeros if wide.endswith(b"\0") else spread


# ------------------------------------------------------------------------ the process's own secrets

MIN_SECRET = 8
"""Shorter known secrets are ignored: they occur inside ordinary words."""

_WRAP = rb"(?:[ \t]{0,40}(?:\r?\n|\\n)[ \t]{0,40})?"
"""An optional line break (and indentation) between two bytes."""

_KNOWN_MARK = mark("secret").encode()


class _KnownSecrets:
    """Secrets whose values are known. Its `repr` shows none of them."""

    __slots__ = ("_engine", "_forms")

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {
            form.encode("utf-8", "surrogatepass")
            for secret in secrets
            for form in _forms(secret.strip())
        }
        self._forms = tuple(sorted(known, key=lambda form: (-len(form), form)))
        flat = [_flat(form) for form in self._forms]
        self._engine = BytesAhoCorasick(flat, implementation=Implementation.DFA)

    def redact(self, data: bytes, removed: list[Removed]) -> bytes:
        """Return `data` without these secrets, including those wrapped over several lines, which
        are added to `removed`."""
        if not self._forms or not (found := self._find_forms(data)):
            return data

        def replace(wrapped: re.Match[bytes]) -> bytes:
            removed.append(Removed("secret", wrapped[0]))
            return _KNOWN_MARK + b"\n" * wrapped[0].count(b"\n")

        for index in found:
            form = self._forms[index]
            if form in data:
                removed.append(Removed("secret", form))
                data = data.replace(form, _KNOWN_MARK + b"\n" * form.count(b"\n"))
        # What is still there is wrapped over several lines.
        for index in self._find_forms(data):
            form = self._forms[index]
            each = [re.escape(form[at : at + 1]) for at in range(len(form))]
            data = re.sub(_WRAP.join(each), replace, data)
        return data

    def _find_forms(self, data: bytes) -> list[int]:
        """Return the indexes of the forms in `data`, ignoring line breaks; the longest first."""
        matches = self._engine.find_matches_as_indexes(_flat(data), overlapping=True)
        return sorted({index for index, _, _ in matches})


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in the forms in which a log may contain it: plain, escaped, encoded."""
    if len(secret) < MIN_SECRET:
        return
    raw = secret.encode()
    yield secret
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)
    yield raw.hex()
    yield raw.hex().upper()
    for shift in range(3):
        form = base64_core(raw, shift)
        yield form
        yield form.replace("+", "-").replace("/", "_")


def _flat(data: bytes) -> bytes:
    return data.translate(None, b" \t\r\n").replace(b"\\n", b"")
