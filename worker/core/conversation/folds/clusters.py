"""Groups the parts of a conversation that belong together, for a summary in several steps. Pure."""

import re
from collections.abc import Iterator, Sequence

from worker.core.conversation.folds.summary import write_transcript
from worker.core.conversation.messages import Assistant, Message, ToolResult, User

_SUBJECT = re.compile(r'"job_id": ?"?(\d{1,19})|([\w.-]{1,80}/[\w./-]{1,160})')


def pack_clusters(messages: Sequence[Message], most: int) -> Iterator[tuple[Message, ...]]:
    """The messages in clusters of at most `most` characters, unless a single exchange is longer.

    Exchanges about the same job, file or question are next to each other.
    """
    packed: list[Message] = []
    size = 0
    for exchange in _sort_by_subject(_split_exchanges(messages)):
        length = sum(map(len, write_transcript(exchange)))
        if packed and size + length > most:
            yield tuple(packed)
            packed, size = [], 0
        packed += exchange
        size += length
    if packed:
        yield tuple(packed)


def _split_exchanges(messages: Sequence[Message]) -> list[list[Message]]:
    """Each answer together with the results of its calls, each message of ours alone."""
    found: list[list[Message]] = []
    for message in messages:
        if isinstance(message, ToolResult) and found:
            found[-1].append(message)
        else:
            found.append([message])
    return found


def _sort_by_subject(exchanges: Sequence[list[Message]]) -> list[list[Message]]:
    """The exchanges in the order in which their subjects first came up."""
    groups: dict[str, list[list[Message]]] = {}
    question = 0
    for exchange in exchanges:
        question += isinstance(exchange[0], User)
        groups.setdefault(_find_subject(exchange) or f"question {question}", []).append(exchange)
    return [exchange for group in groups.values() for exchange in group]


def _find_subject(exchange: Sequence[Message]) -> str:
    """The first job or path that a call names, "" if none does."""
    for message in exchange:
        for call in message.calls if isinstance(message, Assistant) else ():
            if found := _SUBJECT.search(call.arguments):
                return found[1] or found[2]
    return ""
