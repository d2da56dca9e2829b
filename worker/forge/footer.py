"""The small print under a note: what the turn took and what was missing."""

import re
from dataclasses import dataclass

from worker.core.messages import Usage
from worker.core.redacted import Counts, words
from worker.forge.code import code_line
from worker.forge.parts import clean, sentence
from worker.forge.spans import plain_url


@dataclass(frozen=True, slots=True)
class Footer:
    """What a turn took. `cost_usd` is None where a price is unknown.

    `missing` names sources that had nothing to give, each with its reason. `gave_way` is the model
    that did not answer, if another took the turn over. `found_by` is "rule" or "known" where no
    model was asked. `page` is the URL of the session's page, if there is one.
    """

    model: str
    iterations: int
    usage: Usage
    cost_usd: float | None
    seconds: float
    missing: tuple[str, ...] = ()
    gave_way: str = ""
    found_by: str = ""
    redacted: Counts = ()
    page: str = ""


def asides(footer: Footer, unproven: int) -> list[str]:
    found = []
    if unproven:
        quotes = "1 quote" if unproven == 1 else f"{unproven} quotes"
        verb = "was" if unproven == 1 else "were"
        found.append(f"{quotes} could not be proven and {verb} left out.")
    if footer.missing:
        names = "; ".join(clean(name, frozenset(), 160) for name in footer.missing[:8])
        found.append(sentence(f"Not available: {names}"))
    if footer.redacted:
        found.append(f"Redacted before anybody saw it: {words(footer.redacted)}.")
    return found


_WITHOUT = {
    "rule": "Found by rule, no model was asked",
    "known": "Known failure, no model was asked",
}
_SIGNATURE = re.compile(r"sig=\d{1,12}\.[0-9a-f]{16,128}", re.ASCII)
_LOOK = "Reply `/sandpiper analyze` or a question to have it looked at anyway"


def facts(footer: Footer) -> list[str]:
    if footer.found_by in _WITHOUT:
        return [_WITHOUT[footer.found_by], f"{footer.seconds:.0f} s", *_page(footer), _LOOK]
    usage = footer.usage
    cost = "cost unknown" if footer.cost_usd is None else _price(footer.cost_usd)
    calls = "1 iteration" if footer.iterations == 1 else f"{footer.iterations} iterations"
    return [
        _model(footer),
        calls,
        f"{usage.input:,} tokens in, {usage.output:,} out",
        f"{usage.cached_share:.0%} cached",
        cost,
        f"{footer.seconds:.0f} s",
        *_page(footer),
        "Reply in this thread to ask more",
    ]


def _page(footer: Footer) -> list[str]:
    """The link to the session's page: an address of ours and a signature, nothing else."""
    address, _, query = footer.page.partition("?")
    good = plain_url(address) and _SIGNATURE.fullmatch(query)
    return [f"[Session]({footer.page})"] if good else []


def _price(dollars: float) -> str:
    """Two digits that say something: 0.0042, 0.31, 12.00. "$12" would link to a snippet."""
    return f"{dollars:.4f} USD" if 0 < dollars < 0.01 else f"{dollars:.2f} USD"


def _model(footer: Footer) -> str:
    name = code_line(footer.model) or "no model"
    if not footer.gave_way:
        return name
    return f"{name} (instead of {code_line(footer.gave_way)}, which did not answer)"
