"""Reads the words of a refusal: is the request too long, and what does the server want? Pure.

Gateways pass on what servers of other wires say, so there is one table of words for all wires. The
status comes first: under 429 nearly all words speak of a rate, not of a window.

Nobody knows beforehand which limit, level or id a gateway and the model behind it take, and each
refuses in its own words. What is asked for again has a setting, which is named: the first request
of each process is refused until that is written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from worker.models.base import Cause, WantedChange

_MOST_READ = 2000
"""Characters of a message that are read: those of LiteLLM quote the messages of others."""

# ---------------------------------------------------------------------------------- how long it is

_MAY_OVERFLOW = frozenset({400, 404, 413, 422})
_MAY_BE_RATE = frozenset({400, 413, 429})

_OVERFLOWS = (
    # OpenAI and who speaks as it does: DeepSeek, DeepInfra, Groq, OpenRouter, vLLM, SGLang
    r"context_length_exceeded|maximum context length|exceeds the context window"
    r"|reduce the length of the (?:messages|prompt|input)",
    # Anthropic, Vertex AI, Bedrock
    r"prompt is too long|input length and `max_tokens` exceed context limit"
    r"|input is too long for requested model|prompt tokens \(?\d{1,8}\)? exceed model maximum",
    # Gemini
    r"input token count.{0,40}?(?:exceeds the maximum|the model only supports)",
    # vLLM, SGLang; TGI, also behind Together and Hugging Face
    r"longer than the (?:maximum model length|model's context length)"
    r"|exceeds (?:the |model's )?maximum (?:input|prompt|context) length(?!.{0,30}character)"
    r"|exceeds the maximum allowed length \(\d{1,8} tokens"
    r"|`?inputs`? (?:must have less than \d{1,8} tokens|tokens \+ `?max_new_tokens`? must be <=)",
    # llama.cpp, LM Studio, Ollama
    r"exceeds the available context size|exceed_context_size_error|context size has been exceeded"
    r"|greater than the context length|cannot truncate prompt with n_keep"
    r"|prompt too long; exceeded",
    # Cohere, Mistral
    r"too many tokens\b(?!.{0,20}(?:per (?:min|hour|day)|please wait))"
    r"|too large for model with \d{1,8} maximum context length",
    # xAI, Kimi, MiniMax, Cerebras, Copilot, LiteLLM
    r"maximum prompt length|exceeded model token limit|context window exceeds limit"
    r"|current length is \d{1,8} while limit is|token count of \d{1,8} exceeds the limit"
    r"|ContextWindowExceeded",
    # Azure: too many messages
    r"'\$\.messages' is too long",
    # Whoever speaks of tokens, and not of bytes
    r"request too large.{0,80}\btokens\b",
)
_OVERFLOW = re.compile("|".join(_OVERFLOWS), re.IGNORECASE | re.DOTALL)

_RATE = re.compile(
    r"(?<!output )tokens per (?:min|hour|day)|(?<!output )token rate limit|\(TP[MHD]\)",
    re.IGNORECASE,
)
_ALWAYS_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)

_N = r"\(?(\d{1,8})\b"


def _compile(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each.replace("<N>", _N), re.IGNORECASE) for each in patterns)


_LIMITS = _compile(
    r"> <N>",
    r"(?:allowed|only supports up to|context length of only|context size) <N>",
    r"maximum (?:context|prompt|model|allowed|input) length (?:is|of)? ?<N>",
    r"exceeded model token limit: <N>",
    r"context length (?:is|of)? ?<N>",
    r"(?:must be <=|must have less than|cannot exceed|exceeds the limit of|limit of) <N>",
    r"(?:model maximum|while limit is|too large for model with|n_ctx:?) <N>",
    r"\bLimit:? (\d{1,8})\b",
    r"of <N> input tokens per",
)
_TOTALS = _compile(
    r"\bRequested:? <N>(?! (?:output )?tokens)",
    r"\(prompt and prediction\) cannot exceed \d{1,8} - received <N>",
    r"you requested (?:about |a total of )?<N> tokens ?[(:]",
)
"""Numbers of tokens in which those for the answer are counted as well."""
_COUNTS = _compile(
    r"<N> tokens? >",
    r"exceed context limit: <N> \+",
    r"token count (?:is |of )?<N>",
    r"you requested (?:about )?<N> tokens",
    r"(?:messages resulted in|request has|request contains|current length is|received) <N>",
    r"prompt contains (?:at least )?<N>(?! characters)",
    r"(?:the input|input length|prompt \(length|prompt tokens|^request|the request) <N>",
    r"(?:Given:|n_prompt_tokens|n_keep:?) <N>",
)
_ANSWERS = _compile(
    r"exceed context limit: \d{1,8} \+ <N>",
    r"<N> (?:tokens )?(?:in|for) (?:the |your )?(?:completion|output)",
    r"you requested <N> output tokens",
    r"<N> `?max_new_tokens",
    r"is too large: <N>\. This model's maximum context length",
)
_SEPARATORS = re.compile(r"(?<=\d),(?=\d{3})")
_LEAST_LIMIT = 500


@dataclass(frozen=True, slots=True)
class StatedSize:
    """The numbers of tokens in a refusal; each is 0 if it is not stated.

    `limit` is the most that the server takes, `count` what it has counted. `answer` are those set
    aside for the answer, which count against the limit. `counts_answer` says that they do, and are
    in `count`, although it is not said how many they are.
    """

    limit: int = 0
    count: int = 0
    answer: int = 0
    counts_answer: bool = False

    def subtract_answer(self, asked: int) -> "StatedSize":
        """Return the sizes of the input alone, for an answer of which `asked` tokens were asked
        for."""
        if not self.counts_answer:
            return replace(self, limit=max(0, self.limit - self.answer))
        return StatedSize(max(0, self.limit - asked), max(0, self.count - asked), asked)

    @classmethod
    def read(cls, reason: str) -> "StatedSize":
        """Return the numbers that a provider's `reason` states, as far as they make sense.

        A count that is within the limit explains no refusal, and is not believed.
        """
        words = _SEPARATORS.sub("", reason[:_MOST_READ])
        limit = next(_find_numbers(_LIMITS, words), 0)
        if limit < _LEAST_LIMIT:
            return cls()
        answer = next(_find_numbers(_ANSWERS, words), None)
        total = next(_find_numbers(_TOTALS, words), 0)
        if total > limit:
            if answer is None:
                return cls(limit, total, counts_answer=True)
            return cls(limit, max(0, total - answer), answer)
        count = max(_find_numbers(_COUNTS, words), default=0)
        return cls(limit, count if count > limit - (answer or 0) else 0, answer or 0)


def find_length_cause(status: int, words: str) -> Cause | None:
    """Return OVERFLOW or RATE_TOO_LOW if a refusal is one for length, else None.

    A server error counts only if it states how much is too much: some gateways answer so.
    """
    words = words[:_MOST_READ]
    if status in _MAY_BE_RATE and _RATE.search(words):
        # Is this one request refused, however long one waits?
        always = _ALWAYS_TOO_LARGE.search(words) or StatedSize.read(words).count > 0
        return Cause.RATE_TOO_LOW if always else None
    if status in _MAY_OVERFLOW and _OVERFLOW.search(words):
        return Cause.OVERFLOW
    if status >= 500 and _OVERFLOW.search(words) and StatedSize.read(words).count:
        return Cause.OVERFLOW
    return None


def find_token_rate(words: str) -> int:
    """Return how many input tokens in a minute, hour or day a refusal allows, 0 if it does not
    say."""
    return StatedSize.read(words).limit if _RATE.search(words[:_MOST_READ]) else 0


def _find_numbers(patterns: Sequence[re.Pattern[str]], words: str) -> Iterator[int]:
    return (int(match[1]) for each in patterns if (match := each.search(words)))


# ------------------------------------------------------------------------- what is wanted instead

_LEAST_ANSWER = 16
"""Tokens. What states fewer is not about the length of an answer."""

_LIMIT_FIELDS = "max_tokens|max_completion_tokens|max_output_tokens"
_OMITTED = "reasoning_effort|reasoning|tool_choice|include|prompt_cache_key|stream|store"
_FIELD = rf"['\"`]?\b(?P<field>{_LIMIT_FIELDS}|{_OMITTED})\b(?:\.effort)?['\"`]?"

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
    rf"\b(?:{_LIMIT_FIELDS})\b.{{0,120}}?"
    r"(?:at most|less than or equal to|<=|\[\d{1,9}, ?|\d > |cannot exceed|maximum(?: value)? is)"
    r"[ `'\"]{0,3}(?P<most>\d{1,9})",
    re.IGNORECASE | re.DOTALL,
)
_SEALED = re.compile(r"encrypted content is not supported", re.IGNORECASE)
_REASONING_WANTED = re.compile(
    r"\b(?P<name>reasoning_content|reasoning)\b[^.\n]{0,80}must be (?:passed|sent) back",
    re.IGNORECASE,
)
_CALL_ID_WANTED = re.compile(
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
    if found := _REASONING_WANTED.search(text):
        name = found["name"].lower()
        return WantedChange(f"set {provider}send_reasoning to {name}", dialect={"reasoning": name})
    if found := _CALL_ID_WANTED.search(text):
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
