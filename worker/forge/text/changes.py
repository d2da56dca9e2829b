"""The text of a note about suggested changes. Pure; text that others wrote is made harmless."""

import re

from worker.core.finding.shell_scripts import (
    CommandList,
    is_compound,
    remove_heredocs,
    split_script,
)
from worker.core.finding.suggestions import Offers, Suggestion
from worker.core.finding.trials import Run, Trial
from worker.core.session_id import Marker
from worker.core.text.sentences import before_code, split_clauses, split_sentences
from worker.core.text.untrusted import one_line
from worker.forge.defence.spans import is_plain_url
from worker.forge.text.code import write_code_line, write_suggestion_block
from worker.forge.text.parts import remove_tokens

MAX_SCRIPT = 100_000
MAX_COMMAND = 180
MAX_LAST_LINE = 120
"""Characters of a script that are read, of a command that are shown (its start and end), and of the
last line of its output."""

_STOPS = re.compile(r"\bset -\w{0,10}e|\berrexit\b|\bexit\b|\btrap\b")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")


_QUALIFIES = re.compile(
    r"n't\b|\b(?:unless|only|before|first|check|ask|confirm|sure|if|but|never|not|instead|note)\b",
    re.IGNORECASE,
)
_ON_RETRIES = re.compile(r"\bretr(?:y|ies|ied)\b", re.IGNORECASE)


def _is_qualified(advice: str) -> bool:
    """Whether a clause may limit the advice. Whether a retry helps does not."""
    sentences = split_sentences(before_code(advice))
    clauses = (clause for each in sentences for clause in split_clauses(each, ",;"))
    return any(_QUALIFIES.search(each) and not _ON_RETRIES.search(each) for each in clauses)


def say_where(offers: Offers, advice: str) -> str:
    """Returns one line of Markdown that says where the changes are; "" if there are none.

    `advice` is what is folded of the advice: what qualifies the changes should be read first, and
    of code that is left in it nothing is on the diff.
    """
    urls = [url for url in offers.urls if is_plain_url(url)]
    left = offers.left_out_count
    if not urls:
        what = "The change is" if left == 1 else f"The {left} changes are"
        return f"{what} in the details." if left else ""
    more = f"; {left} more {'is' if left == 1 else 'are'} in the details" if left else ""
    if before_code(advice) != advice and not left:
        links = ", ".join(f"[on the diff]({url})" for url in urls)
        return f"Only a part of the fix is {links}."
    first, apply = (
        ("Read on in the details, then ", "apply") if _is_qualified(advice) else ("", "Apply")
    )
    if len(urls) == 1:
        return f"{first}[{apply} it on the diff]({urls[0]}){more}."
    links = ", ".join(f"[{number}]({url})" for number, url in enumerate(urls, 1))
    return f"{first}{apply} them on the diff: {links}{more}."


def write_suggestion(
    marker: Marker, fix: Suggestion, line: int, note_url: str, trial: Trial | None
) -> str:
    """Returns a comment on `line` of the diff that suggests the change `fix`; "" if impossible.

    A text that holds a token or invisible characters is not suggested. `trial` is what the sandbox
    has shown about the change, None if that is not known.
    """
    block = write_suggestion_block(fix.text, line - fix.first, fix.last - line)
    if not block or remove_tokens(fix.text) != fix.text:
        return ""
    source = f"[the analysis]({note_url})" if is_plain_url(note_url) else "the analysis"
    return f"{marker.text()}\n\nA fix from {source}{_say_tried(trial)}\n\n{block}"


def _say_tried(trial: Trial | None) -> str:
    """Returns what was run with a change: the end of a sentence, and a list of the commands."""
    if trial is None:
        return "."
    if not trial.runs:
        return "; no run of it is known."
    what = "exactly this change" if trial.alone else "this and the other changes of the analysis"
    title = f". With {what} in place the sandbox has run:"
    if all(run.made_change for run in trial.runs):
        title = f". The sandbox has run one command that makes {what}:"
    several = len(trial.runs) > 1
    return "\n".join(
        [
            title,
            "",
            *(_write_run(run, notes_change=several and run.made_change) for run in trial.runs),
        ]
    )


def _write_run(run: Run, *, notes_change: bool) -> str:
    """Returns a command and its exit status, with `notes_change` also that it made the change."""
    script = remove_tokens(run.command)[:MAX_SCRIPT]
    last = None if is_compound(script) else split_script(script)[-1]
    ending = "; the same command has made the change" if notes_change else ""
    line = write_code_line(one_line(remove_tokens(run.last_line), MAX_LAST_LINE))
    said = f"; its last line: {line}" if line else ""
    return f"- {_name_command(run, script, last)}: {_tell_status(run, script, last)}{said}{ending}"


def _name_command(run: Run, script: str, last: CommandList | None) -> str:
    """Returns the command as code; of a long script the last command, if the exit status is its
    own, else the beginning and the end."""
    command = one_line(script, MAX_SCRIPT)
    if len(command) <= MAX_COMMAND:
        return write_code_line(command)
    if last and _is_status_of_last(run):
        command, before = one_line(last.text, MAX_SCRIPT), "a script that ends with "
    else:
        command, before = one_line(remove_heredocs(script), MAX_SCRIPT), ""
    if len(command) > MAX_COMMAND:
        command = f"{command[: MAX_COMMAND // 3]} … {command[-MAX_COMMAND * 2 // 3 :]}"
    return before + write_code_line(command)


def _tell_status(run: Run, script: str, last: CommandList | None) -> str:
    """Returns how the command ended, and what its exit status does not tell."""
    if run.exit_code is None:
        return "ended at its time limit"
    status = f"exit status {run.exit_code}"
    if "pipefail" not in script and _ends_in_pipe(script, last, failed=run.exit_code != 0):
        status += ", that of the pipe's last command"
    if run.exit_code == 0 and "||" in (last.text if last else remove_heredocs(script)):
        status += ", also if what stands before `||` has failed"
    return status


def _is_status_of_last(run: Run) -> bool:
    """Whether a script's exit status is that of its last commands, and not of an earlier command at
    which the script stopped."""
    return run.exit_code == 0 or (run.exit_code is not None and not _STOPS.search(run.command))


def _ends_in_pipe(script: str, last: CommandList | None, *, failed: bool) -> bool:
    """Whether the exit status is that of a pipe; if the script's last command is unknown, whether
    the script has a pipe at all."""
    if last is None:
        return bool(_PIPE.search(script))
    return any(len(pipe) > 1 for pipe in (last.pipes if failed else last.pipes[-1:]))
