"""Posts changes on the lines of the diff, where one click applies them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from worker.answer import suggestions
from worker.answer.note.facts import add_runs, write_suggestion
from worker.answer.suggestions import Change, NotOnDiff, Offers
from worker.answer.trials import Trial
from worker.conversation.context import Context
from worker.errors import ArgumentError, ForgeError, SourceError
from worker.safety.markdown import Kind, Marker
from worker.turns.parts import Deps
from worker.turns.trials import Trials
from worker.verdict.diffs import Changes
from worker.verdict.finding import Captures, Finding, RepoFile
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.suggestions")

MOST_ON_DIFF = 3

_ELSEWHERE = "it belongs on the target branch; the lines are numbered as in this merge request"


def offer_changes(
    context: Context,
    finding: Finding,
    trials: Trials,
    captures: Captures,
    deps: Deps,
    *,
    private: bool,
) -> tuple[Finding, Offers]:
    """Return `finding` with the changes taken out of its advice, and how they are offered.

    Each change is posted once, however often this is called. Changes that are not on the diff are
    offered as text. No change of a `private` finding is put on the diff.
    """
    advice, found = suggestions.read_suggestions(finding.to_do)
    changes = suggestions.group_changes(found)
    public = not private and context.note is not None and not context.note.internal
    is_for_diff = deps.options.note.suggestions and public and finding.verdict is Verdict.CHANGE
    if is_for_diff and changes:
        ends = _post_all(context, changes, trials, captures, deps)
    else:
        ends = [NotOnDiff(_ELSEWHERE if finding.verdict is Verdict.TARGET else "")] * len(changes)
    pairs = list(zip(changes, ends, strict=True))
    links = [(suggestions.name_place(change), end) for change, end in pairs if isinstance(end, str)]
    kept = [(change, end) for change, end in pairs if isinstance(end, NotOnDiff)]
    offers = Offers(
        links=tuple(links),
        left_out_count=sum(len(change) for change, _ in kept),
        text="\n\n".join(suggestions.write_text(change, end.reason) for change, end in kept),
    )
    return replace(finding, to_do=advice), offers


def expect_changes(context: Context, finding: Finding, deps: Deps) -> tuple[Finding, Offers]:
    """Return what `offer_changes` would for a note that all may read, as far as the diff tells
    that; nothing is posted. If GitLab cannot be asked, every change is taken to be on the diff."""
    advice, found = suggestions.read_suggestions(finding.to_do)
    changes = suggestions.group_changes(found)
    is_for_diff = deps.options.note.suggestions and finding.verdict is Verdict.CHANGE
    on_diff = _find_shown(context, changes, deps) if is_for_diff and context.investigates else ()
    kept = [change for change in changes if change not in on_diff]
    offers = Offers(
        links=tuple((suggestions.name_place(change), _SOME_URL) for change in on_diff),
        left_out_count=sum(map(len, kept)),
        text="\n\n".join(suggestions.write_text(change, "") for change in kept),
    )
    return replace(finding, to_do=advice), offers


def _find_shown(context: Context, changes: Sequence[Change], deps: Deps) -> Sequence[Change]:
    """Return the changes to lines that the diff shows, at most MOST_ON_DIFF."""
    if not changes:
        return ()
    try:
        diff = deps.gitlab.merge_requests.read_changes(context.subject)
    except (ForgeError, SourceError):
        return changes[:MOST_ON_DIFF]
    if isinstance(diff, str):
        return ()
    shown = (each for each in changes if suggestions.is_on_diff(each, diff))
    return [*islice(shown, MOST_ON_DIFF)]


def tell_later_runs(context: Context, trials: Trials, deps: Deps) -> None:
    """Say in the comments on the diff what this later turn of the session has run with their
    changes. Raises nothing."""
    ran = {change: trial for change, trial in trials.items() if trial.runs}
    notes, session = deps.gitlab.notes, context.session_id
    try:
        for each in notes.list_own_notes(context.subject) if ran else ():
            if each.marker.session_id == session and each.marker.kind is Kind.SUGGESTION:
                body = add_runs(each.body, ran)
                if body != each.body:
                    notes.edit_note(context.subject, each.ref, body)
    except ForgeError as error:
        log.warning("session %s: what was run is not told: %s", session, error)


_SOME_URL = "https://gitlab.example.com/"


def _post_all(
    context: Context,
    changes: Sequence[Change],
    trials: Trials,
    captures: Captures,
    deps: Deps,
) -> list[str | NotOnDiff]:
    """Post the changes; return the URL of each one's comment, or why it has none."""
    try:
        diff = deps.gitlab.merge_requests.read_changes(context.subject)
        if isinstance(diff, str):
            return [NotOnDiff(diff)] * len(changes)
        own = {
            each.marker: each.ref.url for each in deps.gitlab.notes.list_own_notes(context.subject)
        }
    except (ForgeError, SourceError) as error:
        log.warning("session %s: no suggestions: %s", context.session_id, error)
        return [NotOnDiff("GitLab could not be asked")] * len(changes)
    poster = _Poster(context, diff, own, captures, deps)
    ends = [poster.post(change, trials.get(change)) for change in changes]
    for end in ends:
        if isinstance(end, NotOnDiff):
            log.info("session %s: a change stays text: %s", context.session_id, end.reason)
    return ends


class _Poster:
    """Puts changes on one diff, at most MOST_ON_DIFF of them."""

    def __init__(
        self,
        context: Context,
        diff: Changes,
        own: Mapping[Marker, str],
        captures: Captures,
        deps: Deps,
    ) -> None:
        self._context, self._diff, self._own = context, diff, own
        self._captures, self._deps = captures, deps
        # Those on an earlier failure of the session stay where they are.
        before = MOST_ON_DIFF * context.look
        self._left = list(range(before + 1, before + MOST_ON_DIFF + 1))

    def post(self, change: Change, trial: Trial | None) -> str | NotOnDiff:
        """Post a change; return the URL of its comment, or why it has none."""
        position = suggestions.find_change_position(change, self._diff)
        if isinstance(position, NotOnDiff):
            return NotOnDiff(self._find_missing_lines(change) or position.reason)
        head = self._diff.head_sha
        try:
            fix = suggestions.combine_change(
                change, lambda path: self._captures.read_lines(RepoFile(path, head))
            )
        except (ArgumentError, SourceError) as error:
            log.warning("session %s: not on the diff: %s", self._context.session_id, error)
            return NotOnDiff("the lines between them could not be read")
        if isinstance(fix, NotOnDiff):
            return fix
        if not self._left:
            return NotOnDiff(f"at most {MOST_ON_DIFF} are put there")
        marker = Marker(self._context.session_id, self._left[0], Kind.SUGGESTION)
        # If the note was deleted meanwhile, there is nothing to link to.
        analysis = self._own.get(Marker(self._context.session_id, self._context.note_turn), "")
        body = write_suggestion(marker, fix, position.new_line, analysis, trial)
        if not body:
            return NotOnDiff("a reader would not see all of it there")
        subject, notes = self._context.subject, self._deps.gitlab.notes
        try:
            url = self._own.get(marker) or notes.post_note(subject, body, "", at=position).url
        except ForgeError as error:
            log.warning("session %s: not on the diff: %s", self._context.session_id, error)
            return NotOnDiff("GitLab did not take it")
        self._left.pop(0)
        return url

    def _find_missing_lines(self, change: Change) -> str:
        """Return what is wrong with a change to lines that its file does not have; "" if it has
        them, or if the file cannot be read."""
        for fix in change:
            try:
                count = len(self._captures.read_lines(RepoFile(fix.path, self._diff.head_sha)))
            except (ArgumentError, SourceError):
                continue
            if fix.last > count:
                return f"the file as it was read has only {count} line{'' if count == 1 else 's'}"
        return ""
