"""The small print under a note, and the folded details of how the turn went."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from worker.answer.note.note_parts import clean_line
from worker.conversation.digest import Digest
from worker.safety.markdown import write_code_line
from worker.safety.neutralise import is_plain_url
from worker.safety.redacted_values import Counts, count_all, describe_counts, group_by_document

MAX_VISIBLE = 139
"""Characters of the small print that a reader sees."""

_MAX_MODEL = 32
_MAX_PRICE = 11
MOST_TOLD = 8
"""Lines under one title."""


@dataclass(frozen=True, slots=True)
class Footer:
    """How a turn went."""

    model: str
    cost_usd: float | None
    """None if a price is unknown."""
    missing_sources: tuple[str, ...] = ()
    """The sources that gave nothing, each with the reason."""
    replaced_model: str = ""
    """The model that did not answer, if another one took over the turn."""
    found_by: str = ""
    """Who found it if no model was asked: "rule" or "known"."""
    redaction_counts: Counts = ()
    page: str = ""
    """The URL of the session's page, if there is one."""
    tier: str = ""
    """The model's tier with its level; "" without tiers."""
    models: tuple[str, ...] = ()
    """For each model how often it was asked, and why the model changed."""
    digest: Digest | None = None
    """What a turn had looked at when a limit ended it."""
    takes_replies: bool = True
    """The note is in GitLab, where it can be answered."""


_WITHOUT = {
    "rule": "Found by rule, no model was asked",
    "known": "Known failure, no model was asked",
}
_LOGS = "the log of job "
_SIGNATURE = re.compile(r"sig=\d{1,12}\.[0-9a-f]{16,128}", re.ASCII)
_LOOK = "Reply `/sandpiper analyze` to ask a model"
_ASK = "Reply to ask more"


def write_small_print(footer: Footer, unproven: int) -> str:
    """Return one line of less than 140 visible characters; shorter forms are used as needed."""
    without = _WITHOUT.get(footer.found_by)
    first = [without] if without else _name_models(footer)
    rest = [*([] if without else _write_price(footer.cost_usd)), *_write_unproven(unproven)]
    last = [*_link_page(footer), *_invite_reply(footer)]
    # Markdown has at least as many characters as are visible; only the link's URL is hidden.
    hidden = sum(len(each) - len("Session") for each in _link_page(footer))
    for who, masked in product(first, _write_masked(footer.redaction_counts)):
        line = " · ".join([*filter(None, (who, *rest, masked)), *last])
        if len(line) - hidden <= MAX_VISIBLE:
            break
    return line


def _invite_reply(footer: Footer) -> list[str]:
    if not footer.takes_replies:
        return []
    return [_LOOK if footer.found_by in _WITHOUT else _ASK]


def list_folded_lines(footer: Footer, small_print: str) -> Iterator[tuple[str, list[str]]]:
    """Yield titles and the lines to fold under them: what the `small_print` has no room for."""
    if footer.digest:
        title = clean_line(footer.digest.title, frozenset(), 80)
        yield title, _clean_lines(footer.digest.lines)
    if footer.missing_sources:
        shown = _clean_lines(footer.missing_sources[:MOST_TOLD])
        yield "Not available", _cut_lines([*shown, *footer.missing_sources[MOST_TOLD:]])
    masked = [_write_masked_in(*each) for each in group_by_document(footer.redaction_counts)]
    if len(masked) > 1 or any(each not in small_print for each in masked):
        yield "Masked before it was read", _cut_lines(masked)
    models = _clean_lines(footer.models)
    if footer.replaced_model and _name_both_models(footer) not in small_print:
        models.append(_name_both_models(footer))
    if models:
        yield "Models", _cut_lines(models)


def _clean_lines(lines: Sequence[str]) -> list[str]:
    return [clean_line(line, frozenset(), 300) for line in lines]


def _cut_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_TOLD
    return [*lines[:MOST_TOLD], *([f"{more} more"] if more > 0 else [])]


def _name_models(footer: Footer) -> list[str]:
    """Return forms of the model's name, the longest first: with the replaced model or the tier."""
    name = _shorten_name(footer.model) or "no model"
    if footer.replaced_model:
        return [_name_both_models(footer), name]
    return [*([f"{name} ({footer.tier})"] if footer.tier else []), name]


def _name_both_models(footer: Footer) -> str:
    model = _shorten_name(footer.model) or "no model"
    return f"{model} ({_shorten_name(footer.replaced_model)} did not answer)"


def _shorten_name(model: str) -> str:
    """Return the model's name as code, without its provider."""
    # A backtick would need more of them around it.
    name = " ".join(model.split()).rpartition("/")[2].replace("`", "'")
    return write_code_line(name if len(name) <= _MAX_MODEL else f"{name[: _MAX_MODEL - 1]}…")


def _write_price(dollars: float | None) -> list[str]:
    """Write a price with two decimals, four below a cent. "$12" would link to a snippet."""
    if dollars is None:
        return ["cost unknown"]
    price = f"{dollars:.4f} USD" if 0 < dollars < 0.01 else f"{dollars:.2f} USD"
    return [price] if len(price) <= _MAX_PRICE else []


def _write_unproven(count: int) -> list[str]:
    if not count:
        return []
    quotes = "1 quote" if count == 1 else f"{min(count, 99)} quotes"
    return [f"{quotes} could not be proven"]


def _write_masked(found: Counts) -> list[str]:
    """Return forms of what was masked in job logs, the longest first; a single log is named.

    What was masked in the sources, such as a password of a test's database, is told in the details.
    """
    found = tuple(each for each in found if each[-1].startswith(_LOGS))
    if not found:
        return [""]
    documents = group_by_document(found)
    named = [_write_masked_in(*documents[0])] if len(documents) == 1 else []
    number = count_all(found)
    return [*named, "1 value masked" if number == 1 else f"{min(number, 9999)} values masked"]


def _write_masked_in(document: str, found: Counts) -> str:
    where = f" in {clean_line(document, frozenset(), 100)}" if document else ""
    return f"{describe_counts(found)} masked{where}"


def _link_page(footer: Footer) -> list[str]:
    """Return the link to the session's page if its URL is plain and signed, else nothing."""
    address, _, query = footer.page.partition("?")
    good = is_plain_url(address) and _SIGNATURE.fullmatch(query)
    return [f"[Session]({footer.page})"] if good else []
