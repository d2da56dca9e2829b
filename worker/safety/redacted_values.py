"""A type for bytes without secrets: documents are made of nothing else. And what was redacted in
them, in words: kinds and counts, never the secrets.

Strings are redacted before they are encoded: in JSON, a token at the beginning of a line follows
the letter of an escape (`\\n`) and would be missed, yet it is a token again once decoded.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from worker.safety.untrusted import visible

T = TypeVar("T")
Redact = Callable[[bytes], bytes]
"""A function that removes secrets and keeps the number of lines."""


class _Key:
    """Proves that a value was redacted; no other module has an instance."""


_KEY = _Key()


class Redacted(bytes):
    """Bytes without secrets. Only the functions of this module make them.

    The methods of `bytes` return plain bytes again; `cut` and `join_all` return Redacted.
    """

    __slots__ = ()

    def __new__(cls, data: bytes, key: _Key) -> "Redacted":
        if key is not _KEY:
            raise TypeError("only this module makes Redacted: see redact_bytes")
        return super().__new__(cls, data)

    def cut(self, size: int) -> "Redacted":
        """Return the first `size` bytes."""
        return Redacted(self[:size], _KEY)

    @staticmethod
    def join_all(parts: "Iterable[Redacted]") -> "Redacted":
        """Join the parts. Raises TypeError if one of them is not Redacted."""
        given: list[object] = list(parts)
        if not all(isinstance(part, Redacted) for part in given):
            raise TypeError("a part of what is joined was not redacted")
        return Redacted(b"".join(cast("list[Redacted]", given)), _KEY)


def assume_redacted(data: bytes) -> Redacted:
    """Mark as redacted what was made of redacted bytes alone: read back, packed or escaped.

    tests/law names the few modules that may call this.
    """
    return Redacted(data, _KEY)


def redact_bytes(data: bytes, redact: Redact) -> Redacted:
    """Return `data`, a text or a file, without its secrets."""
    return Redacted(redact(data), _KEY)


def redact_json(value: Mapping[str, Any], redact: Callable[[str], str]) -> Redacted:
    """Return compact JSON in the given order, one line per item of its lists, for grep and sed.

    Strings lose their secrets and invisible characters. Raises TypeError, ValueError or
    RecursionError for what is not JSON.
    """
    clean = redact_values(
        value, lambda text: redact(visible(text.encode(errors="replace").decode()))
    )
    lines = []
    for key, item in clean.items():
        written = _write_compact(item)
        if isinstance(item, list | tuple) and item:
            written = "[\n" + ",\n".join(map(_write_compact, item)) + "\n]"
        lines.append(f"{json.dumps(key)}:{written}")
    text = "{" + ",\n".join(lines) + "}\n"
    return Redacted(text.encode(errors="replace"), _KEY)


def _write_compact(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False)


# ---------------------------------------------------------------------------------------- values


def redact_values(value: T, redact: Callable[[str], str]) -> T:
    """Return `value` with every string in it redacted, including the keys of mappings.

    Looks into mappings, lists, tuples and dataclasses. The key of a string in a mapping may reveal
    that it is a secret, as may the `name` or `key` beside a `value`; the strings of a list are
    searched as the lines of one text.
    """
    return cast(T, _redact_any(value, "", cache(redact)))


def _redact_any(value: Any, name: str, redact: Callable[[str], str]) -> Any:
    if _is_text(value):
        return _redact_string(value, name, redact)
    if isinstance(value, Mapping):
        return _redact_mapping(value, redact)
    if isinstance(value, list | tuple):
        items = _redact_items(value, name, redact)
        return tuple(items) if isinstance(value, tuple) else items
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(
            value, **{each: _redact_any(getattr(value, each), "", redact) for each in names}
        )
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Enum)


def _redact_string(text: str, name: str, redact: Callable[[str], str]) -> str:
    clean = redact(text)
    lead = f"{name}: "
    named = redact(lead + clean) if name else ""
    return named.removeprefix(lead) if named.startswith(lead) else clean


def _redact_mapping(value: Mapping[Any, Any], redact: Callable[[str], str]) -> dict[Any, Any]:
    redacted: dict[Any, Any] = {}
    # The name of a value in a list of variables.
    names = (value.get(key) for key in ("name", "key"))
    named = next((each for each in names if isinstance(each, str)), "")
    for key, item in value.items():
        name = redact(key) if _is_text(key) else key
        while name in redacted:  # two keys were secrets and now look the same; keep both values
            name = f"{name}'"
        redacted[name] = _redact_any(item, named if key == "value" and named else str(key), redact)
    return redacted


def _redact_items(value: Sequence[Any], name: str, redact: Callable[[str], str]) -> list[Any]:
    if value and all(map(_is_text, value)):
        text = "\n".join(value)
        lines = _redact_string(text, name, redact).split("\n")
        if len(lines) == text.count("\n") + 1:
            each = iter(lines)
            return ["\n".join(islice(each, item.count("\n") + 1)) for item in value]
    return [_redact_any(item, name, redact) for item in value]


# ------------------------------------------------------------------------------------------ streams

OVERLAP = 300
"""How many of the last lines are searched again together with the next piece."""

_LEAST = 1 << 16
_MOST = 16 << 20  # the most bytes held back, however few of them are certain
_MOST_TRIES = 8


def redact_stream(
    pieces: Iterable[bytes], redact: Redact, overlap: int = OVERLAP
) -> Iterator[Redacted]:
    """Redact one text in pieces of whole lines; a secret that spans two pieces is found too. Of one
    longer than `overlap` lines, the rest may stay."""
    held = b""
    for piece in pieces:
        if len(held) >= _LEAST:  # checked only here, when it is known that more comes
            clean = redact(held)
            if len(held) > _MOST:
                yield Redacted(clean, _KEY)
                held = b""
            elif cut := _find_certain_line(held, clean, redact, overlap):
                yield Redacted(clean[: cut[1]], _KEY)
                held = held[cut[0] :]
        held += piece
    if held:
        yield Redacted(redact(held), _KEY)


def _find_certain_line(
    raw: bytes, clean: bytes, redact: Redact, overlap: int
) -> tuple[int, int] | None:
    """Return where, in both texts, the last line begins that is at least `overlap` lines before the
    end and whose text is redacted the same without what comes before it. None if there is none.

    Lines that are as they were may lie within a secret: output between the lines of a key.
    """
    raw_at, clean_at = len(raw), len(clean)
    for _ in range(_MOST_TRIES):
        if (found := _find_same_line(raw, clean, raw_at, clean_at, overlap)) is None:
            return None
        raw_at, clean_at = found
        if redact(raw[raw_at + 1 :]) == clean[clean_at + 1 :]:
            return raw_at + 1, clean_at + 1
    return None


def _find_same_line(
    raw: bytes, clean: bytes, raw_at: int, clean_at: int, overlap: int
) -> tuple[int, int] | None:
    """Return the line end, in both texts, before the last line that is the same in both and at
    least `overlap` lines before the places given. None if there is none."""
    for _ in range(overlap):
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
        if raw_at < 0 or clean_at < 0:
            return None
    while raw_at >= 0 and clean_at >= 0:
        raw_end, clean_end = raw.find(b"\n", raw_at + 1), clean.find(b"\n", clean_at + 1)
        # Replacing a secret changes every line that it reaches into. Only an empty line may look
        # the same although it is part of a secret.
        line = raw[raw_at:raw_end]
        if line == clean[clean_at:clean_end] and not line.isspace():
            return raw_at, clean_at
        raw_at, clean_at = raw.rfind(b"\n", 0, raw_at), clean.rfind(b"\n", 0, clean_at)
    return None


# ---------------------------------------------------------------------------- what was redacted

Counts = tuple[tuple[str, int, str], ...]
"""How often each kind of secret (as in `redact.mark`) was redacted in each document: the kind, the
number, the document ("" if unknown); ordered by kind and document."""

_PROPER_NAMES = """
    AWS Airtable Alibaba Anthropic Artifactory Atlassian Azure Brevo Buildkite CircleCI Clojars
    Cloudflare Databricks DigitalOcean Docker Doppler Duffel Dynatrace EasyPost Figma
    Flutterwave GitHub GitLab Google Grafana Harness Heroku HubSpot Infracost Linear Mailchimp
    Mailgun MaxMind Netlify Notion NuGet Octopus OpenAI OpenShift PlanetScale Postman Prefect
    Pulumi PyPI ReadMe RubyGems Scalingo SendGrid Sentry Shippo Shopify Slack Snyk Sonar
    Sourcegraph Square Stripe Supabase Tailscale Telegram Terraform Twilio Typeform URL Vault
    Yandex
"""
_PROPER = tuple(_PROPER_NAMES.split())
_NAMES = {
    "authorization": "authorization header",
    "fly": "Fly.io",
    "frameio": "Frame.io",
    "huggingface": "Hugging Face",
    "jwt": "JSON web token",
    "newrelic": "New Relic",
    **{name.lower(): name for name in _PROPER},
}


def sort_counts(found: Mapping[tuple[str, str], int]) -> Counts:
    """Return the counts by kind and document as sorted `Counts`, without those that are zero."""
    return tuple(
        (kind, number, document) for (kind, document), number in sorted(found.items()) if number > 0
    )


def describe_counts(found: Counts) -> str:
    """Describe the counts as "2 GitLab tokens, 1 private key", over all documents; "" if empty."""
    total = Counter[str]()
    for kind, number, _ in found:
        total[kind] += number
    return ", ".join(
        f"{number} {' '.join(_NAMES.get(part, part) for part in kind.split('-'))}"
        f"{'s' * (number != 1)}"
        for kind, number in total.items()
    )


def group_by_document(found: Counts) -> tuple[tuple[str, Counts], ...]:
    """Return the documents, each with its own counts."""
    documents = sorted({document for _, _, document in found})
    return tuple((name, tuple(each for each in found if each[2] == name)) for name in documents)


def count_all(found: Counts) -> int:
    """Return how many secrets there were."""
    return sum(number for _, number, _ in found)
