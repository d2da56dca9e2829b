"""What notes say of the changes that an analysis advises. Pure; what others wrote is harmless."""

import re

from worker.core.finding.suggestions import Offers, Suggestion
from worker.core.finding.trials import Run, Trial
from worker.core.session_id import Marker
from worker.core.text.untrusted import one_line
from worker.forge.defence.spans import plain_url
from worker.forge.text.code import code_line, suggestion_block
from worker.forge.text.parts import without_tokens

MAX_SCRIPT = 100_000
MAX_COMMAND = 180
"""Characters of a command that are read, and that are shown: its beginning and its end."""

_PIPE = re.compile(r"(?<!\|)\|(?!\|)")


def say_where(offers: Offers, *, limited: bool) -> str:
    """Where the changes are, as one line of Markdown; "" if there are none.

    Where they are `limited` by advice that is folded away, that is to be read first.
    """
    urls = [url for url in offers.urls if plain_url(url)]
    left = offers.left
    if not urls:
        what = "The change is" if left == 1 else f"The {left} changes are"
        return f"{what} in the details." if left else ""
    more = f"; {left} more {'is' if left == 1 else 'are'} in the details" if left else ""
    first = "Read on in the details, then apply" if limited else "Apply"
    if len(urls) == 1:
        return f"[{first} it on the diff]({urls[0]}){more}."
    links = ", ".join(f"[{number}]({url})" for number, url in enumerate(urls, 1))
    return f"{first} them on the diff: {links}{more}."


def write_suggestion(
    marker: Marker, fix: Suggestion, line: int, note_url: str, trial: Trial | None
) -> str:
    """A comment on the `line` of the diff that offers to replace lines; "" if it cannot be.

    What a token hides in, or what nobody would see, is not offered. `trial` is what the sandbox has
    shown of it, None where that is not known.
    """
    block = suggestion_block(fix.text, line - fix.first, fix.last - line)
    if not block or without_tokens(fix.text) != fix.text:
        return ""
    source = f"[the analysis]({note_url})" if plain_url(note_url) else "the analysis"
    return f"{marker.text()}\n\nA fix from {source}{_say_tried(trial)}\n\n{block}"


def _say_tried(trial: Trial | None) -> str:
    """What was run of a change: the end of a sentence, and a list where something was."""
    if trial is None:
        return "."
    if not trial.runs:
        return "; nothing in the sandbox shows that exactly this was run."
    what = "exactly this change" if trial.alone else "this and the other changes of the analysis"
    title = f". With {what} in place the sandbox has run:"
    if all(run.made for run in trial.runs):
        title = f". The sandbox has run one command that makes {what}:"
    several = len(trial.runs) > 1
    return "\n".join([title, "", *(_item(run, told=several and run.made) for run in trial.runs)])


def _item(run: Run, *, told: bool) -> str:
    """A command and its exit status, and if that is to be `told`, that it has made the change."""
    command = without_tokens(one_line(run.command, MAX_SCRIPT))
    if len(command) > MAX_COMMAND:
        command = f"{command[: MAX_COMMAND // 3]} … {command[-MAX_COMMAND * 2 // 3 :]}"
    status = "ended at its time limit"
    if run.exit_code is not None:
        status = f"exit status {run.exit_code}"
        if _PIPE.search(run.command) and "pipefail" not in run.command:
            status += ", that of the pipe's last command"
    made = "; the same command has made the change" if told else ""
    return f"- {code_line(command)}: {status}{made}"
