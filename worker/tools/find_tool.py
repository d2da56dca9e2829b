"""`find_tool`: describes tools that were not announced, so that the announced list stays short.

The schemas are returned as a result: so the tool definitions of the session stay byte for byte the
same, and the provider's cache stays valid.
"""

import re
from collections.abc import Sequence
from itertools import count

from pydantic import Field

from worker.conversation.messages import ToolSpec
from worker.errors import ArgumentError
from worker.tools.arguments import Arguments
from worker.tools.base import ToolContext, ToolDef, ToolOutput

NAME = "find_tool"
USES = 3
"""How often it may be used in a run, where nothing else is set."""

_MOST_FOUND = 4
_WORD = re.compile(r"[a-z0-9]{3,}")


class Args(Arguments):
    """The arguments of `find_tool`."""

    query: str = Field(min_length=1, max_length=500, description="What you want to know or do.")


def make_find_tool(others: Sequence[ToolSpec], most: int = USES) -> ToolDef[Args]:
    """Make the tool that finds one of `others`, for one run; it may be used `most` times."""
    uses = count(1)
    often = f"{most} times" if most > 1 else "once"

    def run(args: Args, context: ToolContext, number: int) -> ToolOutput:
        if next(uses) > most:
            raise ArgumentError(f"{NAME} may be used {often}; go on with what you have")
        found = _find(args.query, others)
        content = {
            "how": "call fetch_to_sandbox with the name as `source`",
            "tools": [
                {"name": each.name, "description": each.description, "arguments": each.parameters}
                for each in found
            ],
            "others": [each.name for each in others if each not in found],
        }
        return ToolOutput(content, 0)

    return ToolDef(
        name=NAME,
        description=(
            f"Find more data sources by what they give, with their arguments. At most {often}. "
            f"There are {len(others)} besides the tools you see."
        ),
        args=Args,
        run=run,
    )


def _find(query: str, others: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools that share the most words with the query, the best first."""
    wanted = _read_stems(query)
    scores = {
        each.name: 3 * len(wanted & _read_stems(each.name.replace("_", " ")))
        + len(wanted & _read_stems(each.description))
        for each in others
    }
    best = sorted(others, key=lambda each: (-scores[each.name], each.name))
    return [each for each in best if scores[each.name]][:_MOST_FOUND]


def _read_stems(text: str) -> frozenset[str]:
    return frozenset(word[:6] for word in _WORD.findall(text.lower()))
