"""What GitLab and the logs show of the failing jobs, as the folded lines of a note."""

from collections.abc import Callable, Iterable, Iterator

from worker.core.failure.verdict import REFUTABLE, Ruling, Verdict
from worker.core.finding import Finding
from worker.core.text.remarks import Link, Name, Remark
from worker.forge.defence.spans import allowed
from worker.forge.text.code import code_line
from worker.forge.text.parts import Hosts, clean, without_tokens

MAX_LINES = 40
TITLE = "What GitLab and the logs show"


def lines(finding: Finding, hosts: Hosts) -> list[str]:
    """One line for each fact; it names its jobs where it is not true of all that are told of. What
    speaks against a verdict is one line for all jobs, which its sentences name."""
    rulings = [each for each in finding.rulings if each.because or each.against or each.record]
    shown = [
        *_by_fact(rulings, lambda ruling: _proof(ruling, hosts)),
        *_against(rulings, hosts),
        *_by_fact(rulings, lambda ruling: (rendered(each, hosts) for each in ruling.record)),
    ]
    if len(shown) > MAX_LINES:
        shown = [*shown[:MAX_LINES], f"{len(shown) - MAX_LINES} more facts are left out"]
    return shown


def _by_fact(rulings: list[Ruling], facts: Callable[[Ruling], Iterable[str]]) -> Iterator[str]:
    told: dict[str, list[str]] = {}
    for ruling in rulings:
        for fact in facts(ruling):
            told.setdefault(fact, []).append(_jobs(ruling))
    every = len({_jobs(ruling) for ruling in rulings})
    for fact, jobs in told.items():
        yield fact if len(jobs) == every else f"{', '.join(jobs)}: {fact}"


def _proof(ruling: Ruling, hosts: Hosts) -> Iterator[str]:
    if ruling.because:
        yield f"{ruling.hard}: {rendered(ruling.because, hosts)}"


def _against(rulings: list[Ruling], hosts: Hosts) -> Iterator[str]:
    told: dict[Verdict, dict[str, None]] = {}
    for ruling in rulings:
        for verdict, why in ruling.against:
            told.setdefault(verdict, {})[rendered(why, hosts)] = None
    for verdict, sentences in told.items():
        words = "not" if verdict in REFUTABLE else "speaks against"
        yield f"{words} {verdict}: {'; '.join(sentences)}"


def doubt(finding: Finding, hosts: Hosts) -> str:
    """Why the verdict is not the model's, on one line, or "" if it is."""
    judged = finding.judged
    if judged is None or not judged.because:
        return ""
    return f"The model said “{judged.model}”, but {rendered(judged.because, hosts)}."


def rendered(sentence: Remark, hosts: Hosts) -> str:
    """The sentence as harmless Markdown. A stored session is a stranger's too."""
    return "".join(_part(part, hosts) for part in sentence)


def _part(part: str | Name | Link, hosts: Hosts) -> str:
    match part:
        case Name(text):
            return code_line(without_tokens(text)) or "?"
        case Link(text, url):
            words = clean(text, frozenset())
            return f"[{words}]({url})" if allowed(url, hosts) else words
        case _:
            # `clean` takes blanks off the ends; they part this from what stands beside it.
            before = " " * (len(part) - len(part.lstrip(" ")) > 0)
            after = " " * (len(part) - len(part.rstrip(" ")) > 0)
            return f"{before}{clean(part, frozenset())}{after}" if part.strip() else " "


def _jobs(ruling: Ruling) -> str:
    named = code_line(without_tokens(ruling.name)) or "a job"
    more = len(ruling.jobs) - 1
    return f"{named} and {more} more" if more > 0 else named
