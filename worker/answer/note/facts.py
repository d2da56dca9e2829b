"""What a note says besides the model's text. Pure; text that others wrote is made harmless.

These are the facts from GitLab and the logs on the failing jobs, as folded lines; where suggested
changes are on the diff; and which checks have run with such a change in place.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from worker.answer.note.note_parts import Hosts, clean_line, remove_tokens
from worker.answer.parse import advises_against_retry
from worker.answer.shell_scripts import MAX_READ
from worker.answer.suggestions import Change, Offers, Suggestion
from worker.answer.trials import Trial
from worker.safety.markdown import Marker, write_code_line, write_suggestion_block
from worker.safety.neutralise import is_link_allowed, is_plain_url
from worker.safety.sentences import before_code, split_clauses, split_sentences
from worker.safety.untrusted import one_line
from worker.verdict.finding import Finding
from worker.verdict.remarks import Link, Name, Remark
from worker.verdict.verdict import Ruling, Verdict

MAX_LINES, MOST_OTHERS = 40, 2
_FROM_OUTSIDE = (Verdict.FLAKY, Verdict.INFRASTRUCTURE)
TITLE = "What GitLab and the logs show"


def write_record(finding: Finding, hosts: Hosts) -> list[str]:
    """Return one line for each fact; it names its jobs unless the fact holds for all of them. The
    objections to a verdict are one line for all jobs; their sentences name the jobs."""
    rulings = [
        each for each in finding.rulings if each.because or each.contradictions or each.record
    ]
    shown = [
        *_group_by_fact(
            rulings,
            lambda ruling: (
                f"{ruling.hard}: {render_remark(why, hosts)}" for why in [ruling.because] if why
            ),
        ),
        *_write_objections(rulings, finding, hosts),
        *_group_by_fact(
            rulings, lambda ruling: (render_remark(each, hosts) for each in ruling.record)
        ),
    ]
    if len(shown) > MAX_LINES:
        shown = [*shown[:MAX_LINES], f"{len(shown) - MAX_LINES} more facts are left out"]
    return shown


def _group_by_fact(
    rulings: list[Ruling], facts: Callable[[Ruling], Iterable[str]]
) -> Iterator[str]:
    jobs_by_fact: dict[str, list[str]] = {}
    for ruling in rulings:
        for fact in facts(ruling):
            jobs_by_fact.setdefault(fact, []).append(_name_jobs(ruling))
    every = len({_name_jobs(ruling) for ruling in rulings})
    for fact, jobs in jobs_by_fact.items():
        yield fact if len(jobs) == every else f"{', '.join(jobs)}: {fact}"


def _write_objections(rulings: list[Ruling], finding: Finding, hosts: Hosts) -> Iterator[str]:
    """Yield what speaks against a verdict. If a retry does not help, "flaky" may mean that it
    comes with a date or a place: then only what happened is said. What rules out that a failure
    comes from outside is made of facts that have lines of their own."""
    reasons: dict[Verdict, dict[str, None]] = {}
    for ruling in rulings:
        for verdict, why in ruling.contradictions:
            if verdict in _FROM_OUTSIDE and why == ruling.explain_refutation(verdict):
                continue
            reasons.setdefault(verdict, {})[render_remark(why, hosts)] = None
    for verdict, sentences in reasons.items():
        steady = verdict is finding.verdict is Verdict.FLAKY and advises_against_retry(
            finding.to_do
        )
        label = "" if steady else f"speaks against “{verdict}”: "
        yield f"{label}{'; '.join(sentences)}"


def write_origin(finding: Finding, hosts: Hosts) -> str:
    """Return where the target branch has the same failure, or where a flaky one came and went, if
    that is the verdict; else for which jobs the record proves another one. "" if there is a doubt
    (`write_doubt`), which would say so already."""
    if write_doubt(finding, hosts):
        return ""
    shown: dict[Verdict, Iterable[Remark]] = {
        Verdict.TARGET: (each.origin for each in finding.rulings),
        Verdict.FLAKY: (each.recovery for each in finding.rulings),
    }
    origin = render_remark(next(filter(None, shown.get(finding.verdict, ())), ()), hosts)
    others = [each for each in finding.rulings if each.hard not in (None, finding.verdict)]
    shown_others = others[:MOST_OTHERS] if len(others) < len(finding.rulings) else []
    return origin or "; ".join(f"{_name_jobs(each)}: {each.hard}" for each in shown_others)


def write_doubt(finding: Finding, hosts: Hosts) -> str:
    """Return on one line why the verdict differs from the model's; "" if it does not."""
    judged = finding.final_verdict
    if judged is None or not judged.because:
        return ""
    return f"The model said “{judged.model}”, but {render_remark(judged.because, hosts)}."


def render_remark(sentence: Remark, hosts: Hosts) -> str:
    """Return the sentence as harmless Markdown. It may come from a stored session, so it is
    untrusted."""
    rendered = ""
    for part in sentence:
        match part:
            case Name(text):
                rendered += write_code_line(remove_tokens(text)) or "?"
            case Link(text, url):
                words = clean_line(text, frozenset())
                rendered += f"[{words}]({url})" if is_link_allowed(url, hosts) else words
            case _:
                # `clean_line` strips the blanks that separate this part from its neighbours.
                before = " " * part.startswith(" ")
                after = " " * part.endswith(" ")
                words = clean_line(part, frozenset())
                rendered += f"{before}{words}{after}" if part.strip() else " "
    return rendered


def _name_jobs(ruling: Ruling) -> str:
    named = write_code_line(remove_tokens(ruling.name)) or "a job"
    more = len(ruling.jobs) - 1
    return f"{named} and {more} more" if more > 0 else named


# ------------------------------------------------------------------------------ suggested changes

MAX_CAUTION = 700
_MAX_COMMAND = 180
"""Characters of a command that are shown: its start and its end."""

_QUALIFIES = re.compile(
    r"n't\b|\b(?:unless|only|before|first|check|ask|confirm|sure|if|but|never|not|instead|note)\b",
    re.IGNORECASE,
)
_ON_RETRIES = re.compile(r"\bretr(?:y|ies|ied)\b", re.IGNORECASE)


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
    # A clause on whether a retry helps does not limit the advice.
    sentences = split_sentences(before_code(advice))
    clauses = [clause for each in sentences for clause in split_clauses(each, ",;")]
    is_qualified = any(_QUALIFIES.search(each) and not _ON_RETRIES.search(each) for each in clauses)
    apply = "See the details, then apply" if is_qualified else "Apply"
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
    lines = []
    for run in trial.runs:
        command = one_line(remove_tokens(run.command), MAX_READ)
        if len(command) > _MAX_COMMAND:
            command = f"{command[: _MAX_COMMAND // 3]} … {command[-_MAX_COMMAND * 2 // 3 :]}"
        lines.append(f"- {write_code_line(command)}: exit status {run.exit_code}")
    return "\n".join([title, "", *lines, *foreign])


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
