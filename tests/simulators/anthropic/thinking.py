"""Which `thinking` and which effort each model accepts.

See https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking and
https://platform.claude.com/docs/en/build-with-claude/effort.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from worker.lab.anthropic.protocol import make_invalid, merge_messages

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MIN_BUDGET = 1024
_BEFORE_ADAPTIVE = re.compile(r"claude-(?:opus|sonnet|haiku)-4-[0-5]\b")
_OPUS_4_5 = re.compile(r"claude-opus-4-5\b")
_GENERATION_4_6 = re.compile(r"claude-(?:opus|sonnet)-4-6\b")
_ALWAYS_THINKS = re.compile(r"claude-(?:opus-5-5|sonnet-5-5|(?:fable|mythos)-5)\b")
_OPUS_5 = re.compile(r"claude-opus-5(?!-\d)")


def check_thinking_fields(body: Mapping[str, Any]) -> None:
    """Raise Refused for a `thinking` or an effort that the model does not accept."""
    model = str(body["model"])
    effort = body.get("output_config", {}).get("effort")
    if effort is not None:
        _check_effort(model, effort)
    thinking = body.get("thinking")
    if thinking is not None:
        _check_type(model, thinking, body["max_tokens"], effort)
        if thinking["type"] == "enabled":
            _check_open_loop(body["messages"])


def _check_effort(model: str, effort: Any) -> None:
    if effort not in _EFFORTS:
        names = ", ".join(f"'{name}'" for name in _EFFORTS)
        raise make_invalid(f"output_config.effort: Input should be {names}")
    if _BEFORE_ADAPTIVE.match(model) and not _OPUS_4_5.match(model):
        raise make_invalid("This model does not support the effort parameter.")
    lacks = {"xhigh", "max"} if _OPUS_4_5.match(model) else {"xhigh"}
    if effort in lacks and (_OPUS_4_5.match(model) or _GENERATION_4_6.match(model)):
        raise make_invalid(f"This model does not support effort level '{effort}'.")


def _check_type(model: str, thinking: Any, max_tokens: int, effort: Any) -> None:
    kind = thinking.get("type")
    old = _BEFORE_ADAPTIVE.match(model)
    if kind == "enabled":
        if not old and not _GENERATION_4_6.match(model):
            raise make_invalid(
                '"thinking.type.enabled" is not supported for this model. Use '
                '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
            )
        _check_budget(thinking.get("budget_tokens"), max_tokens)
    elif kind == "adaptive":
        if old:
            raise make_invalid("adaptive thinking is not supported on this model")
    elif kind == "disabled":
        if _ALWAYS_THINKS.match(model) or (_OPUS_5.match(model) and effort in {"xhigh", "max"}):
            raise make_invalid('"thinking.type.disabled" is not supported for this model.')
    else:
        raise make_invalid(f"thinking: Input tag '{kind}' found using 'type' is unknown")


def _check_open_loop(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that the answer whose tool results end the request began with thinking."""
    sides = list(merge_messages(messages))
    if len(sides) < 2 or all(block["type"] != "tool_result" for block in sides[-1][1]):
        return
    first = sides[-2][1][0]["type"]
    if first not in {"thinking", "redacted_thinking"}:
        raise make_invalid(
            f"messages.{len(sides) - 2}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final "
            "`assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks)."
        )


def _check_budget(budget: Any, max_tokens: int) -> None:
    if not isinstance(budget, int) or budget < _MIN_BUDGET:
        raise make_invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        )
    if budget >= max_tokens:
        raise make_invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
