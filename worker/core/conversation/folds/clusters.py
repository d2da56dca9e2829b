"""Splits a long conversation, for a summary in several steps. Pure."""

from collections.abc import Iterator, Sequence

from worker.core.conversation.folds.summary import write_transcript
from worker.core.conversation.messages import Message, ToolResult


def pack_clusters(messages: Sequence[Message], most: int) -> Iterator[tuple[Message, ...]]:
    """The messages in clusters of at most `most` characters, unless a single exchange is longer."""
    packed: list[Message] = []
    size = 0
    for exchange in _split_exchanges(messages):
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
