"""The facts from GitLab and the logs on the failing jobs, as folded lines of a note."""

from collections.abc import Callable, Iterable, Iterator

from worker.answer.note.note_parts import Hosts, clean_line, remove_tokens
from worker.answer.parse import advises_against_retry
from worker.safety.markdown import write_code_line
from worker.safety.neutralise import is_link_allowed
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
        *_group_by_fact(rulings, lambda ruling: _write_proof(ruling, hosts)),
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


def _write_proof(ruling: Ruling, hosts: Hosts) -> Iterator[str]:
    if ruling.because:
        yield f"{ruling.hard}: {render_remark(ruling.because, hosts)}"


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
    return "".join(_render_part(part, hosts) for part in sentence)


def _render_part(part: str | Name | Link, hosts: Hosts) -> str:
    match part:
        case Name(text):
            return write_code_line(remove_tokens(text)) or "?"
        case Link(text, url):
            words = clean_line(text, frozenset())
            return f"[{words}]({url})" if is_link_allowed(url, hosts) else words
        case _:
            # `clean_line` strips blanks at the ends, which separate this part from its neighbours.
            before = " " * (len(part) - len(part.lstrip(" ")) > 0)
            after = " " * (len(part) - len(part.rstrip(" ")) > 0)
            return f"{before}{clean_line(part, frozenset())}{after}" if part.strip() else " "


def _name_jobs(ruling: Ruling) -> str:
    named = write_code_line(remove_tokens(ruling.name)) or "a job"
    more = len(ruling.jobs) - 1
    return f"{named} and {more} more" if more > 0 else named
