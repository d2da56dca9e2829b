"""Finds the sandbox files that a conversation names. Pure."""

from collections.abc import Iterator, Sequence

from worker.conversation.messages import Message, find_results
from worker.safety.untrusted import parse_objects

_SAVED = ("saved_to", "stdout_file", "stderr_file")
_PATH = 300


def find_saved_files(messages: Sequence[Message]) -> tuple[str, ...]:
    """The paths under /tmp where tool results say that something was saved, each once, in order."""
    paths = (path for result in find_results(messages) for path in _list_paths(result.content))
    return tuple(dict.fromkeys(paths))


def _list_paths(content: str) -> Iterator[str]:
    for each in parse_objects(content, "results"):
        also_saved = each.get("also_saved")
        paths = [*map(each.get, _SAVED), *(also_saved if isinstance(also_saved, dict) else ())]
        yield from (path for path in paths if isinstance(path, str) and _is_plain(path))


def _is_plain(path: str) -> bool:
    return path.startswith("/tmp/") and path.isprintable() and len(path) <= _PATH
