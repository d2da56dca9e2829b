"""Lays out the note on a finding: the words of its headline, which parts are visible at once, and
which are folded. Pure."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from worker.answer.failed_jobs import Detail, FailedLine
from worker.answer.note import facts
from worker.answer.note.fit import (
    BRIEF,
    PartLimits,
    QuoteShape,
    WholeParts,
    choose_limits,
    find_further_failure,
    list_hidden_sentences,
)
from worker.answer.note.note_parts import (
    MAX_REASON,
    Hosts,
    Parts,
    clean_line,
    render_template,
    say_why_stopped,
)
from worker.answer.note.quotes import (
    announces_next,
    choose_line,
    find_words,
    get_job_id,
    sort_quotes,
)
from worker.answer.parse import advises_against_retry, list_named_failures
from worker.answer.suggestions import Offers
from worker.conversation.context import Outcome, Status, Subject
from worker.logs.bystanders import Bystander, find_bystander
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.safety.sentences import before_code, split_sentences
from worker.verdict.finding import Evidence, Finding, HiddenPart, JobArtifact, JobLog, RepoFile
from worker.verdict.verdict import ADVICE, BRANCH_HEADLINES, HEADLINES, Verdict

_TO_DO = "What to do"
_FIELDS = {
    "Cause": "cause",
    "What to do": "to_do",
    "Missing": "missing_evidence",
    "Keep it next time": "next_time",
}
_EMPTY = frozenset(map(str, Bystander))
"""What quotes lack that tell nothing: another quote is shown before them."""

_MOST_ROOM, _STEP = 400, 20
MOST_CAUSE, MOST_ADVICE, MOST_ADVICE_WITH_LINKS = 270, 150, 110
"""How many characters of the cause and of what to do, without and with changes on the diff, the
workflow asks for."""
_PATH = re.compile(r"[^\s/]{1,200}/\S{1,300}")
_NOTHING_SAID = dict.fromkeys(("cause", "missing", "next_time", "to_do"), "")
_ENDS = (*".!?…。！？", "")


@dataclass(frozen=True)
class Layout:
    """What the note on a finding is made of.

    The evidence of `finding` is proven: it is quoted verbatim. `hosts` are the places that links
    may lead to (see `neutralise`), `offers` the suggested changes, `top_line` is a line, harmless
    already, that stands above the headline.
    """

    finding: Finding
    subject: Subject
    outcome: Outcome
    hosts: Hosts
    offers: Offers = field(default_factory=Offers)
    top_line: str = ""

    def lay_out(self, small: str) -> tuple[dict[str, object], Parts]:
        """Return the values of the template, and the parts to fold. `small` is the small print."""
        return self._fill(self._choose_limits(small), small)

    def list_hidden(self, small: str) -> tuple[HiddenPart, ...]:
        """Return what is folded of the sections that the eight visible lines are for: the cause and
        what to do; or what is missing, and how to keep it next time. Sections that hide others
        because they are too long come last, without sentences."""
        hidden, layout = self._find_hidden(small), self
        sections = frozenset(part.section for part in hidden)
        # Sections with more characters than the workflow asks for, if that hides others.
        advice = MOST_ADVICE_WITH_LINKS if self.offers.links else MOST_ADVICE
        most = {"Cause": MOST_CAUSE, _TO_DO: advice}
        longer = [
            HiddenPart(section, (), size)
            for section, size in most.items()
            if sections & most.keys() and section not in sections
            if self._measure_prose(section) > size
        ]
        for part in longer:
            layout = layout._write_shorter(part.section, part.visible_size)
        still = {part.section for part in layout._find_hidden(small)}
        measured = (
            replace(part, visible_size=size, fits=True)
            if part.section not in still and size <= most.get(part.section, 0)
            else layout._measure_room(part, sections, small)
            for part in hidden
            for size in [self._measure_prose(part.section)]
        )
        return *measured, *longer

    def _write_shorter(self, section: str, size: int) -> "Layout":
        """Return the layout of a finding with two sentences in a section."""
        words = "Some " + "words that are not long " * 20
        first, second = words[: size // 2 - 1].rstrip(), words[: size - size // 2 - 1].rstrip()
        changed = {_FIELDS[section]: f"{first}. {second}."}
        return replace(self, finding=replace(self.finding, **changed))  # type: ignore[arg-type]

    def _measure_room(self, part: HiddenPart, hidden: frozenset[str], small: str) -> HiddenPart:
        """Return the part with the most characters that its section may have, in two sentences,
        without hiding a section that is not `hidden` already."""
        if part.section not in _FIELDS:
            return part

        def hides(size: int) -> bool:
            rest = self._write_shorter(part.section, size)._find_hidden(small)
            return any(each.section not in hidden - {part.section} for each in rest)

        # A text of its own length does not fit: its long words leave lines unfilled.
        most = min(_MOST_ROOM, self._measure_prose(part.section) - _STEP)
        larger = range(part.visible_size + _STEP, most + 1, _STEP)
        fitting = bisect_left(larger, True, key=hides)
        return replace(part, visible_size=larger[fitting - 1]) if fitting else part

    def _measure_prose(self, section: str) -> int:
        return len(before_code(getattr(self.finding, _FIELDS[section])).strip())

    def _find_hidden(self, small: str) -> tuple[HiddenPart, ...]:
        finding, limits = self.finding, self._choose_limits(small)
        further = find_further_failure(finding.cause, limits.cause, limits.further_size)
        parts = [
            HiddenPart(title, *list_hidden_sentences(text, count, limits.longest, further))
            for title, text, count in self._list_brief_sections(limits)
        ]
        return tuple(part for part in parts if part.sentences)

    def _list_brief_sections(self, limits: PartLimits) -> Iterator[tuple[str, str, int]]:
        finding = self.finding
        if finding.verdict is Verdict.ABSTAIN:
            yield "Missing", finding.missing_evidence, limits.cause
            yield "Keep it next time", finding.next_time, limits.to_do
            return
        yield "Cause", finding.cause, limits.cause
        if not self._other_advice:
            yield _TO_DO, finding.to_do, limits.to_do

    def _choose_limits(self, small: str) -> PartLimits:
        def fits(limits: PartLimits) -> bool:
            body = render_template("finding", marker="", details="", **self._fill(limits, small)[0])
            return count_visible_lines(body) <= MAX_LINES

        return choose_limits(self._measure_whole(), fits)

    def _measure_whole(self) -> WholeParts:
        finding = self.finding
        abstains = finding.verdict is Verdict.ABSTAIN
        said = finding.missing_evidence if abstains else finding.cause or finding.details
        to_do = finding.next_time if abstains else finding.to_do
        return WholeParts(
            cause=_count_sentences(said),
            to_do=_count_sentences(to_do),
            quotes=[*self._describe_quotes()],
            has_origin=bool(facts.write_origin(finding, frozenset())),
            named_failures=0 if abstains else max(list_named_failures(finding.cause), default=0),
            jobs_detail=_find_free_detail(self._failed_line),
            tests=self._failed_line.count_tests(),
            is_advice_brief=len("".join(split_sentences(before_code(to_do))[:1])) <= BRIEF,
            has_extra_advice=abstains and _count_sentences(finding.to_do) > 0,
        )

    def _describe_quotes(self) -> Iterator[QuoteShape]:
        shown: set[str] = set()
        for at, quote in enumerate(self._quotes):
            line, place, job = self._lines.get(at) or quote, quote.place, get_job_id(quote)
            text, is_file = line.text.strip(), isinstance(place, RepoFile)
            counts_only = not is_file and find_bystander(line.text) is Bystander.CONSEQUENCE
            tells = quote.lacks not in _EMPTY and not counts_only
            is_of_job = isinstance(place, JobLog | JobArtifact)
            is_of_failure = job in self._failed_jobs or not self._failed_jobs
            yield QuoteShape(
                several="\n" in quote.text,
                legible="\n" not in quote.text or at in self._lines,
                announces=announces_next(line.text),
                fails=tells and (is_of_failure if is_of_job else not is_file),
                job=job if job in self._failed_jobs else 0,
                repeats=text in shown and not is_file,
                tells=tells,
            )
            shown.add(text)

    @cached_property
    def _failed_line(self) -> FailedLine:
        return FailedLine(self.finding.failed_jobs, self.finding.what_failed, self.hosts)

    @cached_property
    def _failed_jobs(self) -> frozenset[int]:
        return frozenset(job for ruling in self.finding.rulings for job in ruling.jobs)

    @cached_property
    def _quotes(self) -> list[Evidence]:
        return sort_quotes(self.finding.evidence, self._failed_jobs)

    @cached_property
    def _cause_words(self) -> frozenset[str]:
        # Without paths: what failed is named beside the quotes, and any line may have a folder.
        return find_words(_PATH.sub(" ", self.finding.cause))

    @cached_property
    def _lines(self) -> Mapping[int, Evidence]:
        """The most telling line of each quote of several lines, by the quote's number."""
        lines = {
            at: choose_line(each, self._cause_words)
            for at, each in enumerate(self._quotes)
            if "\n" in each.text
        }
        return {at: line for at, line in lines.items() if line}

    @property
    def _is_overruled(self) -> bool:
        final = self.finding.final_verdict
        return final is not None and bool(final.because)

    @property
    def _other_advice(self) -> str:
        """The advice that replaces the model's; "" if the model's stands."""
        # It is for the author of a merge request, whom a branch does not have.
        fits = self._is_overruled and not self.subject.branch
        return ADVICE.get(self.finding.verdict, "") if fits else ""

    def _fill(self, limits: PartLimits, small: str) -> tuple[dict[str, object], Parts]:
        """Return the values of the template but for the marker and the details, and the parts to
        fold."""
        finding, hosts = self.finding, self.hosts
        parts = Parts(hosts, limits.longest)
        failed = parts.write_jobs("Failed", self._failed_line, limits.jobs_detail, limits.tests)
        abstains = finding.verdict is Verdict.ABSTAIN
        fill = self._fill_abstention if abstains else self._fill_sections
        said = _NOTHING_SAID | fill(parts, limits)
        parts.fold_section("Changes", self.offers.text)
        if not (failed or any(said.values())):
            said["cause"] = parts.write_brief("Answer", finding.details, limits.cause)
        else:
            parts.fold_section("Further details", finding.details)
        quotes = parts.write_quotes(
            self._quotes,
            limits.quotes,
            {at: line for at, line in self._lines.items() if at in limits.one_line},
            limits.quote_size,
            self._cause_words,
        )
        parts.fold_lines(facts.TITLE, facts.write_record(finding, hosts))
        return said | self._fill_rest(said["to_do"], parts) | {
            "origin": facts.write_origin(finding, hosts) if limits.origin else "",
            "failed": failed,
            "evidence": quotes,
            "small": small,
            "top_line": self.top_line,
        }, parts

    def _fill_rest(self, to_do: str, parts: Parts) -> dict[str, object]:
        finding, offers, hosts = self.finding, self.offers, self.hosts
        stopped = say_why_stopped(self.outcome, self.subject, MAX_REASON)
        doubts = stopped, finding.doubt, facts.write_doubt(finding, hosts)
        advice = parts.get_folded(_TO_DO)
        fixes = facts.write_diff_links(offers, advice)
        is_sentence = to_do.rstrip("*_`\"')")[-1:] in _ENDS
        whose = " in the model's view" if self._is_overruled else ""
        is_cause_folded = bool(parts.get_folded("Cause"))
        headlines = BRANCH_HEADLINES if self.subject.branch else HEADLINES
        headline, is_whole = headlines[finding.verdict], self.outcome.status is Status.DONE
        if finding.verdict is Verdict.FLAKY and not self._is_overruled:
            headline += ", and a retry does not help" * advises_against_retry(finding.to_do)
        return {
            "verdict": headline if is_whole else f"Unfinished: {headline.lower()}",
            "by": ", in the model's view" if finding.is_view else "",
            "stopped": " ".join(filter(None, doubts)),
            "whose": whose or (", perhaps" if finding.doubt else ""),
            "to_do": f"{to_do}." if fixes and to_do and not is_sentence else to_do,
            "fixes": fixes,
            "more": facts.say_what_is_folded(
                to_do, advice, finding.details, is_cause_folded, bool(offers.text)
            ),
            "advised": whose if not self._other_advice else "",
        }

    def _fill_sections(self, parts: Parts, limits: PartLimits) -> dict[str, str]:
        finding = self.finding
        cause = parts.write_brief("Cause", finding.cause, limits.cause)
        if further := find_further_failure(finding.cause, limits.cause, limits.further_size):
            cause += f" {clean_line(further, self.hosts)}"
        if to_do := self._other_advice:
            parts.fold_section("What the model would do", finding.to_do)
        else:
            to_do = parts.write_brief(_TO_DO, finding.to_do, limits.to_do)
        parts.fold_section("Missing", finding.missing_evidence)
        parts.fold_section("Next time", finding.next_time)
        return {"cause": cause, "to_do": to_do}

    def _fill_abstention(self, parts: Parts, limits: PartLimits) -> dict[str, str]:
        finding = self.finding
        missing = parts.write_brief("Missing", finding.missing_evidence, limits.cause)
        next_time = parts.write_brief("Next time", finding.next_time, limits.to_do)
        parts.fold_section("What is known", finding.cause)
        to_do = parts.write_brief(_TO_DO, finding.to_do, int(limits.extra_advice))
        return {"missing": missing, "next_time": next_time, "to_do": to_do}


def _find_free_detail(failed: FailedLine) -> Detail:
    """Return the most detail that takes no more lines than ONE_LINE."""
    least, *more = (
        count_visible_lines(f"**Failed:** {Parts(failed.hosts, 0).write_jobs('', failed, detail)}")
        for detail in (Detail.ONE_LINE, Detail.WHOLE, Detail.FIRST_TESTS)
    )
    fitting = zip((Detail.WHOLE, Detail.FIRST_TESTS), more, strict=True)
    return next((detail for detail, lines in fitting if lines <= least), Detail.ONE_LINE)


def _count_sentences(text: str) -> int:
    """Count the sentences before the first code block."""
    return len(split_sentences(before_code(text)))
