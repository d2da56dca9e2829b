"""The Markdown blocks of an answer, to tell what the model says from what it only shows."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from markdown_it import MarkdownIt

_MOST = 64_000
"""The most characters of an answer that are read, half of them from its end."""


class BlockKind(StrEnum):
    """What a block is."""

    HEADING = "heading"
    PROSE = "prose"
    ITEM = "item"
    """In a list or a block quote."""
    FENCE = "fence"
    CODE = "code"
    """Indented."""


@dataclass(frozen=True, slots=True)
class Block:
    """`info` is the info string of a fence, in lower case. `is_closed` is False for a fence that is
    still open where the text ends."""

    kind: BlockKind
    text: str
    info: str = ""
    is_closed: bool = True


_KINDS = {"fence": BlockKind.FENCE, "code_block": BlockKind.CODE, "html_block": BlockKind.PROSE}


def read_blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks of a text, in order."""
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]}\n\n{text[-_MOST // 2 :]}"
    blocks: list[Block] = []
    depth, is_heading = 0, False
    lines = text.split("\n")
    for token in _get_parser().parse(text):
        if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            depth -= 1
        elif token.type in ("heading_open", "heading_close"):
            is_heading = token.type == "heading_open"
        elif token.type == "inline":
            kind = BlockKind.HEADING if is_heading else BlockKind.PROSE
            blocks.append(Block(BlockKind.ITEM if depth else kind, token.content))
        elif token.type in _KINDS:
            is_closed = token.type != "fence" or _ends_fence(lines, token.map, token.markup)
            blocks.append(
                Block(_KINDS[token.type], token.content, token.info.strip().lower(), is_closed)
            )
    return tuple(blocks)


def _ends_fence(lines: list[str], place: list[int] | None, mark: str) -> bool:
    first, end = place or (0, 0)
    return end - first > 1 and lines[end - 1].strip(" \t>").startswith(mark)


@cache
def _get_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True})
