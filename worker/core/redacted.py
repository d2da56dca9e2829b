"""What was taken out of a session's documents, in words: kinds and counts, never the secrets."""

from collections.abc import Mapping, Sequence

Counts = tuple[tuple[str, int], ...]
"""Kinds of secrets as `redact.mark` names them, in their order, each with how many there were."""

_PROPER = (
    *("AWS", "Anthropic", "Azure", "Docker", "GitHub", "GitLab", "Google", "OpenAI", "PyPI"),
    *("RubyGems", "SendGrid", "Slack", "Sonar", "Stripe", "URL"),
)
_NAMES = {
    "authorization": "authorization header",
    "huggingface": "Hugging Face",
    "jwt": "JSON web token",
    **{name.lower(): name for name in _PROPER},
}


def counts(found: Mapping[str, int]) -> Counts:
    """The same in an order of its own."""
    return tuple(sorted((kind, number) for kind, number in found.items() if number > 0))


def words(found: Sequence[tuple[str, int]]) -> str:
    """As "2 GitLab tokens, 1 private key"; "" for nothing."""
    return ", ".join(f"{number} {_name(kind)}{'s' * (number != 1)}" for kind, number in found)


def _name(kind: str) -> str:
    return " ".join(_NAMES.get(part, part) for part in kind.split("-"))
