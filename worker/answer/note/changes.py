"""The text of a note about suggested changes. Pure; text that others wrote is made harmless."""

import re
from collections.abc import Mapping

from worker.answer.note.note_parts import clean_line, remove_tokens
from worker.answer.shell_scripts import MAX_READ
from worker.answer.suggestions import Change, Offers, Suggestion
from worker.answer.trials import Run, Trial
from worker.safety.markdown import Marker, write_code_line, write_suggestion_block
from worker.safety.neutralise import is_plain_url
from worker.safety.sentences import before_code, split_clauses, split_sentences
from worker.safety.untrusted import one_line

MAX_CAUTION = 700
_MAX_COMMAND = 180
"""Characters of a command that are shown: its start and its end."""

_QUALIFIES = re.compile(
    r"n't\b|\b(?:unless|only|before|first|check|ask|confirm|sure|if|but|never|not|instead|note)\b",
    re.IGNORECASE,
)
_ON_RETRIES = re.compile(r"\bretr(?:y|ies|ied)\b", re.IGNORECASE)


def _is_qualified(advice: str) -> bool:
    """Whether a clause may limit the advice; one on whether a retry helps does not."""
    sentences = split_sentences(before_code(advice))
    clauses = (clause for each in sentences for clause in split_clauses(each, ",;"))
    return any(_QUALIFIES.search(each) and not _ON_RETRIES.search(each) for each in clauses)


def write_diff_links(offers: Offers, advice: str) -> str:
    """Return one line of Markdown that says where the changes are; "" if there are none.

    `advice` is the folded part of the advice: if it qualifies the changes, it should be read first,
    and code in it is not on the diff. The fold's title says if it has changes that are not on the
    diff.
    """
    links = [(place, url) for place, url in offers.links if is_plain_url(url)]
    left = offers.left_out_count
    if not links:
        return ""
    more = f"; {left} more {'is' if left == 1 else 'are'} in the details" if left else ""
    if before_code(advice) != advice and not left:
        parts = ", ".join(f"[on the diff]({url})" for _, url in links)
        return f"Only a part of the fix is {parts}."
    names = [write_code_line(one_line(remove_tokens(place), MAX_READ)) for place, _ in links]
    if len(" ".join(names)) > _MAX_PLACES or len({*names} - {""}) < len(names):
        numbers = range(1, len(links) + 1)
        names = [*map(str, numbers)] if len(links) > 1 else ["the change"]
    places = ", ".join(f"[{name}]({url})" for name, (_, url) in zip(names, links, strict=True))
    apply = "See the details, then apply" if _is_qualified(advice) else "Apply"
    return f"{apply} on the diff: {places}{more}."


_MAX_PLACES = 60
"""The most characters of the names of all places; if they have more, they are numbered."""


_REFERS = re.compile(
    r"\bbelow\b|\b(?:following|this) (?:block|change|code|command|diff|lines?|patch|snippet)\b"
    r"|\b(?:block|code|diff|patch|snippet) (?:in|under)\b",
    re.IGNORECASE,
)


def say_what_is_folded(
    shown: str, folded: str, details: str, is_cause_folded: bool, has_changes: bool
) -> str:
    """Return the end of the fold's title: whether a part of the cause, advice or code is in it.

    `folded` is what is not visible of the advice, `shown` what is. Code in the `details` is advice
    if what is shown refers to it; `has_changes`: there are changes that are not on the diff.
    """
    refers = before_code(details) != details and _REFERS.search(shown)
    parts = ["more of the cause"] if is_cause_folded else []
    if before_code(folded).strip():
        parts.append(f"{'more of ' if shown else ''}what to do")
    if before_code(folded) != folded or refers or has_changes:
        parts.append("code")
    *first, last = parts or [""]
    return f", with {', '.join(first)} and {last}" if first else f", with {last}" if last else ""


def write_suggestion(
    marker: Marker, fix: Suggestion, line: int, note_url: str, trial: Trial | None
) -> str:
    """Return a comment on `line` of the diff that suggests the change `fix`; "" if impossible.

    A text that holds a token or invisible characters is not suggested. `trial` is what the sandbox
    has shown about the change, None if that is not known.
    """
    block = write_suggestion_block(fix.text, line - fix.first, fix.last - line)
    if not block or remove_tokens(fix.text) != fix.text:
        return ""
    source = f"[the analysis]({note_url})" if is_plain_url(note_url) else "the analysis"
    caution = clean_line(fix.caution, frozenset(), MAX_CAUTION)
    check = f"\n\n**Check first:** {caution}" if caution else ""
    return f"{marker.text()}\n\nA fix from {source}{_say_tried(trial)}{check}\n\n{block}"


_NOT_RUN = "; no check that we know of has run with it."


def _say_tried(trial: Trial | None) -> str:
    """Return what was run with a change: the end of a sentence, and a list of the checks."""
    if trial is None:
        return "."
    if not trial.runs:
        return _NOT_RUN
    what = "exactly this change" if trial.alone else "this and the other changes of the analysis"
    title = f". With {what} in place the sandbox has run:"
    foreign = ["", "The failed job's log names none of these."] if trial.is_foreign else []
    return "\n".join([title, "", *map(_write_run, trial.runs), *foreign])


def add_runs(body: str, trials: Mapping[Change, Trial]) -> str:
    """Return a comment that suggests one of these changes and knew of no check, with what has run
    with it since; any other comment as it is."""
    lines = {line.strip() for line in body.split("\n")}
    found = [
        trial
        for change, trial in trials.items()
        if any(fix.lines for fix in change)
        and all(line.strip() in lines for fix in change for line in fix.lines)
    ]
    return body.replace(_NOT_RUN, _say_tried(found[0]), 1) if len(found) == 1 else body


def _write_run(run: Run) -> str:
    command = one_line(remove_tokens(run.command), MAX_READ)
    if len(command) > _MAX_COMMAND:
        command = f"{command[: _MAX_COMMAND // 3]} … {command[-_MAX_COMMAND * 2 // 3 :]}"
    return f"- {write_code_line(command)}: exit status {run.exit_code}"
