"""A model whose server makes it call a tool in every answer; the tool `answer` ends the turn.

This is for small models that stop in the middle of their work to say what they will do next: they
cannot if the server obeys `tool_choice: required`. The conversation is stored as with any other
model.
"""

from dataclasses import replace

from worker.conversation.messages import ToolCall, ToolSpec
from worker.conversation.model import Reply, Request, StopReason
from worker.models.wrapper import ModelWrapper
from worker.safety.untrusted import parse_object

ANSWER = ToolSpec(
    "answer",
    "End your work with your final answer, as the task asks for it. Call it alone, and only when "
    "you need no other tool any more.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The whole answer, in Markdown."}},
        "required": ["text"],
    },
)


class ForcedAnswersModel(ModelWrapper):
    """A `Model` that must call a tool in every answer, if only `answer`. As safe to
    share as the model."""

    def reply(self, request: Request) -> Reply:
        """See Model."""
        if not request.tools:
            return super().reply(request)
        # The list stays the same with the tools switched off: the server's cache begins with it.
        tools = (*request.tools, ANSWER)
        forced = replace(request, tools=tools, has_to_call=request.tools_allowed)
        return _take_answer(super().reply(forced))


def _take_answer(reply: Reply) -> Reply:
    """Return the reply without calls of `answer`; if it has no others, their text is the reply."""
    others = tuple(call for call in reply.calls if call.name != ANSWER.name)
    texts = [_read_text(call) for call in reply.calls if call.name == ANSWER.name]
    if not texts:
        return reply
    if others:
        return replace(reply, calls=others, wire="")
    text = next(filter(None, reversed(texts)), reply.text)
    return replace(reply, text=text, calls=(), wire="", stop=StopReason.END)


def _read_text(call: ToolCall) -> str:
    text = parse_object(call.arguments).get("text")
    return text if isinstance(text, str) else ""
