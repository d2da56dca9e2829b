"""A model whose server refuses native tools, or does not read what the model writes as their calls,
continues with calls as fenced text.

Only the sessions that do so are remembered, for each model. The stored conversation stays as it is,
so that another provider resumes it with native calls.
"""

import logging
import threading
from collections import OrderedDict
from dataclasses import replace

from worker.conversation.answer_text import has_written_call, read_blocks
from worker.conversation.messages import Assistant
from worker.conversation.model import Model, Reply, Request, StopReason
from worker.errors import NO_TOOLS, ModelError
from worker.models.text_tools.fences import Parsed, parse_answer, rewrite_request
from worker.models.wrapper import ModelWrapper

_log = logging.getLogger(__name__)

MOST_SESSIONS = 10_000
"""Sessions that are remembered; a forgotten session costs one refused request."""

_USABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})


class TextToolsModel(ModelWrapper):
    """A `Model` that asks for calls as text if native tools are refused, or an answer
    holds a call as text.

    `always` asks for calls as text from the first request on. As safe to share as the model.
    """

    def __init__(self, model: Model, *, always: bool = False) -> None:
        super().__init__(model)
        self._always = always
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def reply(self, request: Request) -> Reply:
        """See Model."""
        if not request.tools:
            return super().reply(request)
        if self._always or request.session in self._sessions:
            return self._ask_by_text(request)
        try:
            reply = super().reply(request)
        except ModelError as error:
            if error.kind != NO_TOOLS:
                raise
            _log.warning("%s: %s; asking for calls as text", self.name, error)
            self._remember(request.session)
            return self._ask_by_text(request)
        return self._read_calls(reply, request)

    def _read_calls(self, reply: Reply, request: Request) -> Reply:
        """Return the reply to a request with native tools, with the calls that it has as text."""
        if reply.calls or reply.stop is not StopReason.END:
            return reply
        parsed = _parse(reply, request)
        calls = bool(parsed.calls or parsed.is_broken)
        tools = [tool.name for tool in request.tools]
        if not calls and not has_written_call(read_blocks(reply.text), tools):
            return reply
        _log.warning("%s: it writes calls as text; asking for them so", self.name)
        self._remember(request.session)
        return _take_calls(reply, parsed) if calls else reply

    def _remember(self, session: str) -> None:
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)

    def _ask_by_text(self, request: Request) -> Reply:
        reply = super().reply(rewrite_request(request))
        if reply.stop not in _USABLE:
            return replace(reply, wire="")
        return _take_calls(reply, _parse(reply, request))


def _parse(reply: Reply, request: Request) -> Parsed:
    position = sum(isinstance(each, Assistant) for each in request.messages)
    return parse_answer(reply.text, position, request.tools)


def _take_calls(reply: Reply, parsed: Parsed) -> Reply:
    """Return the reply with the calls found at the end of its text."""
    if parsed.is_broken:
        broken = StopReason.MALFORMED
        return replace(reply, text=parsed.text, wire="", stop=broken, dropped_calls=1)
    stop = StopReason.TOOL_CALLS if parsed.calls else StopReason.END
    return replace(reply, text=parsed.text, calls=parsed.calls, wire="", stop=stop)
