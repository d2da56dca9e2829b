"""`log`: shows parts of a job log, short enough for the model's preview.

Every answer is at most `--bytes` long; it counts what is left out and says how to see that. Line
numbers are those of the file. Standard library only; the log may hold any bytes.
"""

import argparse
import sys

from sandbox.image import log_diff, log_errors, log_outline, log_views
from sandbox.image.log_text import ROOM, Unreadable

MAX_CONTEXT = 500
"""The most lines of context on each side; a larger number is reduced to this."""

ABOUT = """\
log outline FILE              sections and commands: lines, seconds, where error candidates are
log errors FILE               lines that look like the failure, grouped, with context
log grep PATTERN FILE         matching lines with context (Python regular expression)
log slice FILE A-B            lines A to B, numbered
log templates FILE            lines by their shape, the rarest first: what is unusual
log diff FILE [GREEN]         what is new against the log of a run that passed (FILE.green)
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="log", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bytes", type=size, default=ROOM, help="the most that is printed")
    listed = argparse.ArgumentParser(add_help=False, parents=[common])
    listed.add_argument("--max", type=size, default=1000, help="the most items that are shown")
    listed.add_argument("--after", type=size, metavar="LINE", help="begin after LINE")
    around = argparse.ArgumentParser(add_help=False)
    about = f"lines of context, at most {MAX_CONTEXT}"
    around.add_argument("-C", dest="context", type=context_size, default=None, help=about)

    verbs.add_parser("outline", parents=[common]).add_argument("file")
    verbs.add_parser("errors", parents=[listed, around]).add_argument("file")
    grep = verbs.add_parser("grep", parents=[listed, around])
    grep.add_argument("-i", dest="caseless", action="store_true", help="whatever the case")
    grep.add_argument("-F", dest="fixed", action="store_true", help="PATTERN is plain text")
    grep.add_argument("pattern")
    grep.add_argument("file")
    part = verbs.add_parser("slice", parents=[common])
    part.add_argument("file")
    part.add_argument("range", help="A-B, A- or A")
    shapes = verbs.add_parser("templates", parents=[listed])
    shapes.add_argument("--common", action="store_true", help="the most frequent first")
    shapes.add_argument("file")
    diff = verbs.add_parser("diff", parents=[listed])
    diff.add_argument("file")
    diff.add_argument("green", nargs="?", help="by default FILE.green")
    return parser


def size(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def context_size(text: str) -> int:
    return min(size(text), MAX_CONTEXT)


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    verbs = {
        "outline": lambda: log_outline.show_outline(options.file, options.bytes),
        "errors": lambda: log_errors.show_errors(
            options.file, options.bytes, options.max, options.after or 0, options.context
        ),
        "grep": lambda: log_views.show_matches(
            options.pattern,
            options.file,
            log_views.GrepOptions(
                options.bytes,
                options.max,
                options.after or 0,
                options.context or 0,
                options.caseless,
                options.fixed,
            ),
        ),
        "slice": lambda: log_views.show_lines(options.file, options.range, options.bytes),
        "templates": lambda: log_views.show_templates(
            options.file, options.bytes, options.max, options.after or 0, options.common
        ),
        "diff": lambda: log_diff.show_diff(
            options.file, options.green, options.bytes, options.max, options.after
        ),
    }
    try:
        text = verbs[options.verb]()
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()
    except Unreadable as error:
        print(f"log: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1
    return 0
