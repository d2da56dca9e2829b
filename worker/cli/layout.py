"""Tables and notes, as wide as the terminal; whole lines where stdout is none."""

import re
from collections.abc import Iterator, Sequence

import click
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text

from worker.cli.terminal import get_width
from worker.safety.untrusted import one_line, visible

LONGEST_LINE = 2000
"""The most characters of a line, and of one cell."""

_NARROWEST = 12
"""The fewest columns to which a cell is wrapped."""

_WIDEST_TEXT = 100
"""The most columns of running text."""

_HTML = re.compile(r"</?(?:details|summary|sub)>|<!--.{0,500}?-->", re.DOTALL)


def pad_text(text: str, columns: int) -> str:
    """Return `text` with blanks up to this many columns."""
    return text + " " * (columns - cell_len(text))


def print_table(rows: Sequence[Sequence[str]], fold: int | None = None) -> None:
    """Print rows in columns; the first row is the head.

    What is not a terminal gets one line for each row, and nothing cut. On a terminal, the column
    `fold` is wrapped if the table is too wide. If it is still too wide, or no column is named, each
    row becomes a paragraph, a line for each cell.
    """
    cells = [[one_line(cell, LONGEST_LINE) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    width, console = get_width(), Console()
    over = 0 if width is None else sum(widths) + 2 * (len(widths) - 1) - width
    if over > 0 and fold is not None and widths[fold] - over >= _NARROWEST:
        widths[fold] -= over
    elif over > 0:
        head, *others = cells
        title_width = max(map(cell_len, head))
        for row in others:
            for title, cell in zip(head, row, strict=True):
                click.echo(f"{pad_text(title, title_width)}  {cell}")
            click.echo()
        return
    for row in cells:
        folded = [
            [cell]
            if cell_len(cell) <= size
            else [line.plain.rstrip() for line in Text(cell).wrap(console, size, overflow="fold")]
            for cell, size in zip(row, widths, strict=True)
        ]
        for line in range(max(map(len, folded))):
            parts = [each[line] if line < len(each) else "" for each in folded]
            padded = map(pad_text, parts, widths)
            click.echo("  ".join(padded).rstrip())


def write_facts(facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each name and text, in two columns; none where there is no text."""
    known = [(name, one_line(text, LONGEST_LINE)) for name, text in facts if text]
    width = max((len(name) for name, _ in known), default=0)
    yield from (f"{name:<{width}}  {text}" for name, text in known)


def print_note(title: str, note: str) -> None:
    """Print a note below its title; on a terminal as it would look on GitLab, framed."""
    text = visible(_HTML.sub("", note)).strip()
    if get_width() is None:
        click.echo(f"{title}\n{'-' * cell_len(title)}\n{text}\n")
        return
    console = Console(highlight=False, emoji=False)
    console.print(Panel(Markdown(text), title=title, title_align="left", width=_WIDEST_TEXT))
