"""The small print under a note, and what is folded away of how the turn went."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from worker.core.text.redaction_counts import Counts, by_document, count_all, words
from worker.forge.defence.spans import plain_url
from worker.forge.text.code import code_line
from worker.forge.text.parts import clean

MAX_VISIBLE = 139
"""Characters of the small print that a reader sees."""

MAX_MODEL = 32
MAX_PRICE = 11
MOST_TOLD = 8
"""Lines under one title."""


@dataclass(frozen=True, slots=True)
class Footer:
    """How a turn went. `cost_usd` is None where a price is unknown.

    `missing` names sources that had nothing to give, each with its reason. `gave_way` is the model
    that did not answer, if another took the turn over. `found_by` is "rule" or "known" where no
    model was asked. `page` is the URL of the session's page, if there is one.
    """

    model: str
    cost_usd: float | None
    missing: tuple[str, ...] = ()
    gave_way: str = ""
    found_by: str = ""
    redacted: Counts = ()
    page: str = ""


_WITHOUT = {
    "rule": "Found by rule, no model was asked",
    "known": "Known failure, no model was asked",
}
_SIGNATURE = re.compile(r"sig=\d{1,12}\.[0-9a-f]{16,128}", re.ASCII)
_LOOK = "Reply `/sandpiper analyze` to ask a model"
_ASK = "Reply to ask more"


def write_small_print(footer: Footer, unproven: int) -> str:
    """One line of less than 140 visible characters; what is longer gives way to what is shorter."""
    without = _WITHOUT.get(footer.found_by)
    first = [without] if without else _models(footer)
    rest = [*([] if without else _price(footer.cost_usd)), *_unproven(unproven)]
    last = [*_page(footer), _LOOK if without else _ASK]
    # Markdown is never shorter than what is seen of it, but for an address.
    hidden = sum(len(each) - len("Session") for each in _page(footer))
    for who, masked in product(first, _masked(footer.redacted)):
        line = " · ".join([*filter(None, (who, *rest, masked)), *last])
        if len(line) - hidden <= MAX_VISIBLE:
            break
    return line


def tell_rest(footer: Footer, small_print: str) -> Iterator[tuple[str, list[str]]]:
    """What is folded away, each with its title: lines that the `small_print` has no room for."""
    if footer.missing:
        yield "Not available", _first([clean(line, frozenset(), 300) for line in footer.missing])
    masked = [_masked_in(*each) for each in by_document(footer.redacted)]
    if len(masked) > 1 or any(each not in small_print for each in masked):
        yield "Masked before it was read", _first(masked)
    if footer.gave_way and _models(footer)[0] not in small_print:
        yield "Models", [_handed_over(footer)]


def _first(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_TOLD
    return [*lines[:MOST_TOLD], *([f"{more} more"] if more > 0 else [])]


def _models(footer: Footer) -> list[str]:
    """The model's name, with that of the one before it if there is room."""
    name = _short(footer.model) or "no model"
    return [_handed_over(footer), name] if footer.gave_way else [name]


def _handed_over(footer: Footer) -> str:
    return f"{_short(footer.model) or 'no model'} ({_short(footer.gave_way)} did not answer)"


def _short(model: str) -> str:
    """A model's own name, without its provider's, as code."""
    # A backtick would need more of them around it.
    name = " ".join(model.split()).rpartition("/")[2].replace("`", "'")
    return code_line(name if len(name) <= MAX_MODEL else f"{name[: MAX_MODEL - 1]}…")


def _price(dollars: float | None) -> list[str]:
    """Two digits that say something: 0.0042, 0.31, 12.00. "$12" would link to a snippet."""
    if dollars is None:
        return ["cost unknown"]
    price = f"{dollars:.4f} USD" if 0 < dollars < 0.01 else f"{dollars:.2f} USD"
    return [price] if len(price) <= MAX_PRICE else []


def _unproven(count: int) -> list[str]:
    if not count:
        return []
    quotes = "1 quote" if count == 1 else f"{min(count, 99)} quotes"
    return [f"{quotes} could not be proven"]


def _masked(found: Counts) -> list[str]:
    """What was taken out of the documents, named with the document if it is one."""
    if not found:
        return [""]
    documents = by_document(found)
    named = [_masked_in(*documents[0])] if len(documents) == 1 else []
    number = count_all(found)
    return [*named, "1 value masked" if number == 1 else f"{min(number, 9999)} values masked"]


def _masked_in(document: str, found: Counts) -> str:
    where = f" in {clean(document, frozenset(), 100)}" if document else ""
    return f"{words(found)} masked{where}"


def _page(footer: Footer) -> list[str]:
    """The link to the session's page: an address of ours and a signature, nothing else."""
    address, _, query = footer.page.partition("?")
    good = plain_url(address) and _SIGNATURE.fullmatch(query)
    return [f"[Session]({footer.page})"] if good else []
