"""What a server that refuses a field of the request wants in its place, as its message says. Pure.

Nobody knows beforehand which limit, level or id a gateway and the model behind it take, and each
refuses in its own words. What is asked for again has a setting, which is named: the first request
of each process is refused until that is written.
"""

import re

from worker.models.base import WantedChange

_MOST_READ = 2000
"""Characters of a message that are read: those of LiteLLM quote the messages of others."""
_LEAST_ANSWER = 16
"""Tokens. What states fewer is not about the length of an answer."""

_LIMITS = "max_tokens|max_completion_tokens|max_output_tokens"
_OMITTED = "reasoning_effort|reasoning|tool_choice|include|prompt_cache_key|stream|store"
_FIELD = rf"['\"`]?\b(?P<field>{_LIMITS}|{_OMITTED})\b(?:\.effort)?['\"`]?"

_REFUSED = re.compile(
    rf"(?:unsupported|unknown|unrecognized|unexpected|invalid) (?:parameter|argument|field|name)"
    rf"(?:s| supplied)?:? {_FIELD}"
    rf"|unrecognized request arguments? supplied: {_FIELD.replace('field', 'supplied')}"
    rf"|unsupported value: {_FIELD.replace('field', 'value')}"
    rf"|does not support parameters: [\[{{]{_FIELD.replace('field', 'listed')}"
    rf"|{_FIELD.replace('field', 'named')} (?:is|are) (?:not (?:supported|allowed|permitted)"
    r"|unsupported|deprecated)"
    rf"|{_FIELD.replace('field', 'extra')}[\])}}]?[,:][^:]{{0,10}}:?[^:]{{0,10}}"
    r"Extra inputs are not permitted",
    re.IGNORECASE,
)
_MOST = re.compile(
    rf"\b(?:{_LIMITS})\b.{{0,120}}?"
    r"(?:at most|less than or equal to|<=|\[\d{1,9}, ?|\d > |cannot exceed|maximum(?: value)? is)"
    r"[ `'\"]{0,3}(?P<most>\d{1,9})",
    re.IGNORECASE | re.DOTALL,
)
_SEALED = re.compile(r"encrypted content is not supported", re.IGNORECASE)
_REASONING = re.compile(
    r"\b(?P<name>reasoning_content|reasoning)\b[^.\n]{0,80}must be (?:passed|sent) back",
    re.IGNORECASE,
)
_CALL_ID = re.compile(
    r"tool call id .{0,200}must be a-z, A-Z, 0-9, with a length of (?P<length>\d{1,2})",
    re.IGNORECASE | re.DOTALL,
)


def find_wanted_change(message: str) -> WantedChange | None:
    """Return what a server wants to be changed, by the message with which it has refused a request;
    None if it does not say so.

    The advice has places for {who}, the provider, and {model}.
    """
    text = message[:_MOST_READ]
    provider, catalogue = "models.providers.{who}.", "models.catalogue.{model}."
    if (found := _MOST.search(text)) and int(found["most"]) >= _LEAST_ANSWER:
        most = int(found["most"])
        return WantedChange(f"set {catalogue}max_output to {most}", most_tokens=most)
    if found := _REASONING.search(text):
        name = found["name"].lower()
        return WantedChange(f"set {provider}send_reasoning to {name}", dialect={"reasoning": name})
    if found := _CALL_ID.search(text):
        pattern = f"[a-zA-Z0-9]{{{found['length']}}}"
        shown = pattern.replace("{", "{{").replace("}", "}}")
        return WantedChange(f"set {provider}call_id to '{shown}'", dialect={"call_id": pattern})
    if _SEALED.search(text):
        return WantedChange("", refused_field="include")
    if found := _REFUSED.search(text):
        field = next(filter(None, found.groups())).lower()
        return WantedChange(_advise(field, provider, catalogue), refused_field=field)
    return None


def _advise(field: str, provider: str, catalogue: str) -> str:
    if field in {"max_tokens", "max_completion_tokens"}:
        other = "max_tokens" if field == "max_completion_tokens" else "max_completion_tokens"
        return f"set {provider}max_tokens_field to {other}"
    if field in {"reasoning_effort", "reasoning"}:
        return f"take the reasoning level of {{model}} out of models.tiers or {catalogue}effort"
    if field == "tool_choice":
        return f"take {catalogue}forced_decision out"
    return ""
