"""How servers refuse a request as too long, in their own words; and words that are no such refusal.

A row's text has {limit}, {count}, {answer} and {total} where the server states a number of tokens;
`total` is the count with the answer. The source says who answers so, and where that stands: in a
thread ("project#number"), or in the server's code ("code"), else in answers as they were seen.
"""

from dataclasses import dataclass

from worker.models.base import Cause
from worker.models.refusal_words import StatedSize


@dataclass(frozen=True, slots=True)
class Refused:
    """One refusal for length. `code` is the error's code, if the server gives it one."""

    source: str
    status: int
    text: str
    code: str = ""
    cause: Cause = Cause.OVERFLOW

    def say(self, limit: int, count: int, answer: int) -> str:
        """The text with these numbers."""
        numbers = {"limit": limit, "count": count, "answer": answer, "total": count + answer}
        return self.text.format(**numbers)

    def expect(self, limit: int, count: int, answer: int) -> StatedSize:
        """What is to be read of the text with these numbers."""
        if "{limit}" not in self.text:
            return StatedSize()
        if "{answer}" in self.text:
            return StatedSize(limit, count, answer)
        if "{total}" in self.text:
            return StatedSize(limit, count + answer, counts_answer=True)
        return StatedSize(limit, count if "{count}" in self.text else 0)


LENGTH = [
    Refused("Anthropic", 400, "prompt is too long: {count} tokens > {limit} maximum"),
    Refused(
        "Anthropic, older models: continue#6080",
        400,
        "input length and `max_tokens` exceed context limit: {count} + {answer} > {limit}, "
        "decrease input length or `max_tokens` and try again",
    ),
    Refused(
        "Bedrock, in litellm's code",
        400,
        "The model returned the following errors: prompt is too long: {count} tokens > {limit} "
        "maximum",
    ),
    Refused("Bedrock, in litellm's code", 400, "Input is too long for requested model."),
    Refused(
        "Bedrock's Mantle, in litellm's code",
        400,
        "prompt tokens ({count}) exceed model maximum ({limit})",
    ),
    Refused(
        "Gemini: gemini-cli#6678",
        400,
        "The input token count ({count}) exceeds the maximum number of tokens allowed ({limit}).",
    ),
    Refused(
        "Vertex AI",
        400,
        "Unable to submit request because the input token count is {count} but the model only "
        "supports up to {limit}. Reduce the input token count and try again.",
    ),
    Refused("OpenAI", 400, "Your input exceeds the context window of this model. Please adjust."),
    Refused(
        "orhanerday/ChatGPT#17 OpenAI",
        400,
        "This model's maximum context length is {limit} tokens. However, your messages resulted in "
        "{count} tokens. Please reduce the length of the messages.",
        "context_length_exceeded",
    ),
    Refused(
        "fast-agent#621 DeepSeek",
        400,
        "This model's maximum context length is {limit} tokens. However, you requested {total} "
        "tokens ({count} in the messages, {answer} in the completion). Please reduce the length of "
        "the messages or completion.",
    ),
    Refused(
        "OpenManus#62 Azure",
        400,
        "This model's maximum context length is {limit} tokens. However, you requested {total} "
        "tokens (6683 in the messages, 730 in the functions, and {answer} in the completion). "
        "Please reduce the length of the messages, functions, or completion.",
        "context_length_exceeded",
    ),
    Refused(
        "RA.Aid#41 DeepInfra, through OpenRouter",
        502,
        'ConnectionError: {{"object": "error", "message": "This model\'s maximum context length is '
        "{limit} tokens. However, you requested {total} tokens ({count} in the messages, {answer} "
        'in the completion). Please reduce the length of the messages or completion."}}',
    ),
    Refused(
        "OpenRouter",
        400,
        "This endpoint's maximum context length is {limit} tokens. However, you requested about "
        "{total} tokens ({count} of text input, {answer} in the output).",
    ),
    Refused(
        "vLLM 0.33, code",
        400,
        "This model's maximum context length is {limit} tokens. However, your prompt contains at "
        "least {count} input tokens, which exceeds this limit even without any output tokens. "
        "Please reduce the length of the input prompt.",
    ),
    Refused(
        "vLLM 0.33, code",
        400,
        "This model's maximum context length is {limit} tokens. However, your prompt contains "
        "900000 characters (more than 800000 characters, which is the upper bound for the limit).",
    ),
    Refused(
        "vllm#33418 vLLM 0.15",
        400,
        "This model's maximum context length is {limit} tokens. However, you requested {answer} "
        "output tokens and your prompt contains {count} input tokens. Please reduce the length of "
        "the input prompt or the number of requested output tokens.",
    ),
    Refused(
        "Step-Audio-R1#3 vLLM 0.11",
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: {answer}. This model's maximum "
        "context length is {limit} tokens and your request has {count} input tokens "
        "({answer} > {limit} - {count}).",
    ),
    Refused(
        "vLLM 0.33, code",
        400,
        "The decoder prompt (length {count}) is longer than the maximum model length of {limit}. "
        "Make sure that `max_model_len` is no smaller.",
    ),
    Refused(
        "vLLM 0.33, code",
        400,
        "Input length ({count}) exceeds model's maximum context length ({limit}).",
    ),
    Refused(
        "DefaultToolLoopSystem.java, a table of such words",
        400,
        "Input exceeds maximum input length of {limit} tokens",
    ),
    Refused(
        "SGLang 0.5.23, code; Together",
        400,
        "The input ({count} tokens) is longer than the model's context length ({limit} tokens).",
    ),
    Refused(
        "SGLang 0.5.23, code",
        400,
        "Requested token count exceeds the model's maximum context length of {limit} tokens. You "
        "requested a total of {total} tokens: {count} tokens from the input messages and {answer} "
        "tokens for the completion.",
    ),
    Refused(
        "sglang#4048 SGLang",
        400,
        "Input length ({count} tokens) exceeds the maximum allowed length ({limit} tokens). Use a "
        "shorter input or enable --allow-auto-truncate.",
    ),
    Refused(
        "TGI, code",
        422,
        "Input validation error: `inputs` must have less than {limit} tokens. Given: {count}",
    ),
    Refused(
        "helm#2079 Together, UI-TARS#626",
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: "
        "{count} `inputs` tokens and {answer} `max_new_tokens`",
    ),
    Refused(
        "llama.cpp, code",
        400,
        "request ({count} tokens) exceeds the available context size ({limit} tokens), try "
        "increasing it",
        "exceed_context_size_error",
    ),
    Refused(
        "llama.cpp, older",
        400,
        "the request exceeds the available context size, try increasing it",
    ),
    Refused(
        "LM Studio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: {count}>= n_ctx: {limit}). Try to load the model with a larger context length, "
        "or provide a shorter input",
    ),
    Refused("LM Studio", 400, "Cannot truncate prompt with n_keep ({count}) >= n_ctx ({limit})"),
    Refused("LM Studio", 400, "Context size has been exceeded."),
    Refused("Ollama", 400, "prompt too long; exceeded max context length by 4 tokens"),
    Refused(
        "Mistral",
        400,
        "Prompt contains {count} tokens and 0 draft tokens, too large for model with {limit} "
        "maximum context length",
    ),
    Refused(
        "topically#4 Cohere",
        400,
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed {limit} - "
        "received {total}. Try using a shorter prompt or a smaller max_tokens value.",
    ),
    Refused(
        "DefaultToolLoopSystem.java, a table of such words", 400, "Too many tokens in the request"
    ),
    Refused(
        "DefaultToolLoopSystem.java, a table of such words",
        413,
        "Request too large: it has more tokens than the model takes",
    ),
    Refused(
        "Groq",
        400,
        "Please reduce the length of the messages or completion.",
        "context_length_exceeded",
    ),
    Refused(
        "Cerebras",
        400,
        "Please reduce the length of the messages or completion. Current length is {count} while "
        "limit is {limit}",
        "context_length_exceeded",
    ),
    Refused(
        "xAI",
        400,
        "This model's maximum prompt length is {limit} but the request contains {count} tokens.",
    ),
    Refused(
        "Kimi",
        400,
        "Invalid request: Your request exceeded model token limit: {limit} (requested: {total})",
    ),
    Refused("MiniMax", 400, "invalid params, context window exceeds limit (2013)"),
    Refused(
        "copilot-more#35 Copilot", 400, "prompt token count of {count} exceeds the limit of {limit}"
    ),
    Refused(
        "LiteLLM 1.110, code",
        400,
        "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - prompt "
        "is too long: {count} tokens > {limit} maximum",
    ),
    Refused(
        "Azure, too many messages",
        400,
        "'$.messages' is too long. Maximum length is 2048, but got 2100 items",
    ),
    Refused(
        "nginx and other gateways, in bytes", 413, "Request Entity Too Large", "", Cause.TOO_LARGE
    ),
    Refused(
        "Anthropic, in bytes",
        413,
        "Request exceeds the maximum size of 33554432 bytes",
        "request_too_large",
        Cause.TOO_LARGE,
    ),
    Refused(
        "Groq: continue#10218",
        413,
        "Request too large for model `llama-3.3-70b-versatile` in organization `org_01` service "
        "tier `on_demand` on tokens per minute (TPM): Limit {limit}, Requested {total}, please "
        "reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today",
        "rate_limit_exceeded",
        Cause.RATE_TOO_LOW,
    ),
    Refused(
        "vanna-flask#11 OpenAI",
        429,
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit "
        "{limit}, Requested {total}. The input or output tokens must be reduced in order to run "
        "successfully. Visit https://platform.openai.com/account/rate-limits to learn more.",
        "rate_limit_exceeded",
        Cause.RATE_TOO_LOW,
    ),
    Refused(
        "the same, of which nobody knows the limit",
        429,
        "Request too large for gpt-4o on tokens per min (TPM). Visit the page on rate limits.",
        "rate_limit_exceeded",
        Cause.RATE_TOO_LOW,
    ),
    Refused(
        "Groq: a day's tokens are fewer than the request's",
        429,
        "Rate limit reached for model `m` on tokens per day (TPD): Limit {limit}, Used 0, "
        "Requested {total}. Please try again in 9m38.016s.",
        "rate_limit_exceeded",
        Cause.RATE_TOO_LOW,
    ),
]
"""Refusals for length: the conversation is folded, as far as a limit is known, and asked again."""

OTHER: list[tuple[str, int, str, str]] = [
    (
        "Groq, it fits later: eliza#4040",
        429,
        "Rate limit reached for model `m` in organization `o` on tokens per minute (TPM): Limit "
        "6000, Used 5034, Requested 1443. Please try again in 4.77s. Need more tokens?",
        "rate_limit_exceeded",
    ),
    ("Bedrock: wait", 429, "Too many tokens, please wait before trying again.", ""),
    ("Bedrock: wait", 400, "Too many tokens, please wait before trying again.", ""),
    ("Bedrock: wait until tomorrow", 400, "Too many tokens per day, please wait", ""),
    (
        "BoltAI#338 Anthropic: wait",
        429,
        "This request would exceed the rate limit for your organization (7f54) of 40,000 input "
        "tokens per minute. For details, refer to: https://docs.anthropic.com/en/api/rate-limits. "
        "Please reduce the prompt length or the maximum tokens requested, or try again later.",
        "",
    ),
    (
        "Anthropic: the answers' tokens",
        429,
        "This request would exceed your organization's rate limit of 8,000 output tokens per "
        "minute",
        "",
    ),
    (
        "Azure: wait",
        429,
        "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024 "
        "have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after "
        "20 seconds.",
        "429",
    ),
    ("any: the window's words under a rate limit", 429, "maximum context length", ""),
    (
        "optillm#4 OpenAI: the answer's limit",
        400,
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, "
        "whereas you provided 8192.",
        "invalid_value",
    ),
    (
        "transformers#28523 TGI: the answer's limit",
        422,
        "Input validation error: `max_new_tokens` must be <= 192. Given: 200",
        "",
    ),
    (
        "OpenAI: a text's length",
        400,
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 60 instead.",
        "string_above_max_length",
    ),
    ("a field's length", 400, "'user' exceeds maximum input length of 64 characters", ""),
    ("a price", 402, "You have too many tokens booked for your balance", ""),
    ("a key's rights", 403, "maximum context length of this key's plan: 8192 tokens", ""),
    ("a server's fault", 500, "maximum context length could not be read", ""),
    ("a token of another kind", 400, "Invalid token: the token limit of your session is over", ""),
    ("a parser", 400, "Unexpected token < in JSON at position 0", ""),
    ("thinking", 400, "`max_tokens` must be greater than `thinking.budget_tokens`", ""),
    ("a list of tools", 400, "Invalid 'tools': array too long. Expected at most 128 items", ""),
]
"""Texts that speak of tokens or of length, and are no refusal for length: waiting, or nothing,
helps."""
