"""`sandpiper models`: what is known about the configured models, and what their providers serve."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import click

from worker import wiring
from worker.cli import FAILED, PARTIAL
from worker.cli.layout import print_table
from worker.cli.terminal import print_json
from worker.errors import ConfigError, ModelError
from worker.models.base import ServedModel
from worker.models.catalogue import Catalogue, CatalogueEntry, Rate, list_current_rates
from worker.models.discovery import Comparison, format_entries
from worker.safety.untrusted import one_line
from worker.settings import Settings

_HEADER = ("role", "model", "level", "window", "in / cached / out", "levels")
_SERVED_HEADER = ("served", "catalogue", "window", "output", "levels")

Row = dict[str, Any]
"""One model as `--json` shows it."""


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """The configured models (`list`), or what a provider serves (`discover`)."""
    if context.invoked_subcommand is None:
        context.invoke(_list)


@command.command("list", short_help="The configured models: levels, windows, prices.")
@click.option("--all", "everything", is_flag=True, help="Every described model, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def _list(config: str | None, everything: bool = False, as_json: bool = False) -> None:
    """The configured models: levels, windows, prices, what is assumed, what is unknown.

    Prices are dollars per million tokens. A * marks the level of a request that states none.
    """
    settings = wiring.load_settings(config, quiet=True)
    known, day = wiring.build_catalogue(settings), datetime.now(UTC).date()
    rows = list[Row]()
    for each in wiring.list_chosen_models(settings):
        row = _make_row(known, each.role, each.spec, each.level, day)
        if refusal := wiring.explain_unpriced(settings, each.spec):
            row["notes"].append(f"refused: {refusal}")
        elif known.assumed_rate and not known.has_price(each.spec, day):
            row["notes"].append("charged at limits.assumed_price")
        rows.append(row)
    if everything:
        rows += [_make_row(known, "", name, "", day) for name in known.models]
    if as_json:
        print_json({"models": rows})
        return
    print_table([_HEADER, *map(_format_row, rows)], fold=5)
    for row in rows:
        for note in row["notes"]:
            click.echo(f"{row['model']}: {note}")


@command.command("discover", short_help="What PROVIDER serves, and the catalogue lacks.")
@click.argument("provider", default="")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def _discover(config: str | None, provider: str, as_json: bool) -> None:
    """Ask PROVIDER which models it serves; else the providers of all configured models.

    Prints what is served, what the catalogue does not describe, and what sandpiper.yaml may say of
    that. Exit status 3 if some providers did not answer, 1 if none did.
    """
    settings = wiring.load_settings(config, quiet=True)
    names = [provider] if provider else wiring.list_chosen_providers(settings)
    if not names:
        raise ConfigError("no configured provider has a list of its models; name one")
    comparisons, failures = _compare_providers(settings, names)
    if as_json:
        _print_json(comparisons, failures)
    else:
        _print_comparisons(comparisons)
    for name, reason in failures.items():
        click.echo(f"sandpiper: {name}: {one_line(reason, 500)}", err=True)
    if failures:
        sys.exit(PARTIAL if comparisons else FAILED)


# -------------------------------------------------------------------------------------------- list


def _make_row(known: Catalogue, role: str, spec: str, level: str, day: date) -> Row:
    entry = known.resolve_name(spec)
    info = known.get_info(spec, level)
    rates = list_current_rates(info.rates, day)
    return {
        "role": role,
        "model": spec,
        "level": info.effort,
        "described_as": entry.name,
        "assumed": entry.is_assumed,
        "price_assumed": info.has_assumed_price,
        "window": info.window if entry.name else None,
        "max_output": info.max_output if entry.name else None,
        "levels": [
            {"name": each.name, "window": each.window or entry.info.window} for each in info.levels
        ],
        "default_level": info.default_level,
        "temperature": info.takes_temperature,
        "prices": [
            {
                "input": rate.input,
                "cache_read": rate.read,
                "cache_write": rate.write_5m,
                "cache_write_1h": rate.write_1h,
                "output": rate.output,
                "above": rate.above_tokens,
                "since": None if rate.valid_from == date.min else rate.valid_from.isoformat(),
            }
            for rate in rates
        ],
        "notes": list(_describe_entry(entry, rates, day)),
    }


def _describe_entry(entry: CatalogueEntry, rates: Sequence[Rate], day: date) -> Iterable[str]:
    """Describe what is assumed or unknown of a model, its levels' windows, and each price but
    today's of short requests."""
    if entry.name:
        if entry.is_assumed:
            yield f"assumed to be like {entry.name}: window, price and levels"
        elif entry.info.has_assumed_price:
            yield "its price is assumed: that of a similar model"
        missing = [("price", entry.info.rates), ("levels", entry.info.levels)]
        if unknown := [name for name, value in missing if not value]:
            yield f"unknown: {', '.join(unknown)}"
    else:
        window = f"{entry.info.window:,} tokens of window are assumed"
        yield f"not described: {window}, its cost is unknown"
    if own := [each for each in entry.info.levels if each.window]:
        yield "window at " + ", ".join(f"{each.name}: {each.window:,}" for each in own)
    for rate in rates:
        when = f"from {rate.valid_from}" if rate.valid_from > day else ""
        size = f"above {rate.above_tokens:,} tokens" if rate.above_tokens else ""
        if when or size:
            price = _format_dollars((rate.input, rate.read, rate.output))
            yield f"{' '.join(filter(None, (when, size)))}: {price}"


def _format_row(row: Row) -> tuple[str, ...]:
    levels = [
        f"{each['name']}{'*' if each['name'] == row['default_level'] else ''}"
        for each in row["levels"]
    ]
    window = "unknown" if row["window"] is None else f"{row['window']:,}"
    price = "unknown"
    if row["prices"]:
        first = row["prices"][0]
        price = _format_dollars((first["input"], first["cache_read"], first["output"]))
        price += " ?" if row["price_assumed"] else ""
    return (
        row["role"] or "-",
        row["model"],
        row["level"] or "-",
        window + (" ?" if row["assumed"] else ""),
        price,
        " ".join(levels) or "unknown",
    )


def _format_dollars(amounts: Iterable[float | None]) -> str:
    return " / ".join("?" if each is None else f"${each:g}" for each in amounts)


# ---------------------------------------------------------------------------------------- discover


def _compare_providers(
    settings: Settings, names: Sequence[str]
) -> tuple[list[Comparison], dict[str, str]]:
    """Return the comparisons, and the reason of each failure by provider.

    Raises ConfigError if there is only one provider, and it cannot be asked.
    """
    comparisons, failures = list[Comparison](), dict[str, str]()
    for name in names:
        try:
            comparisons.append(wiring.compare_provider(settings, name))
        except ModelError as error:
            failures[name] = str(error)
        except ConfigError as error:
            if len(names) == 1:
                raise
            failures[name] = str(error)
    return comparisons, failures


def _list_states(comparison: Comparison) -> list[tuple[str, ServedModel]]:
    """List all models, each with one word for what the catalogue says about it."""
    return [
        *(("described", each) for each in comparison.described_models),
        *(("differing", each) for each in comparison.differing_models),
        *(("assumed", each) for each in comparison.assumed_models),
        *(("unknown", each) for each in comparison.unknown_models),
    ]


def _print_json(comparisons: Sequence[Comparison], failures: dict[str, str]) -> None:
    providers = [
        {
            "provider": each.provider,
            "served": [
                {
                    "id": model.id,
                    "state": state,
                    "window": model.window or None,
                    "max_output": model.max_output or None,
                    "levels": list(model.levels),
                }
                for state, model in _list_states(each)
            ],
            "unusable_ids": each.unusable_ids,
        }
        for each in comparisons
    ]
    entries = format_entries(comparisons)
    print_json({"providers": providers, "failures": failures, "entries": entries})


def _print_comparisons(comparisons: Sequence[Comparison]) -> None:
    for each in comparisons:
        parts = [f"{each.provider}: {len(each.all_models)} models served"]
        if each.missing_models:
            parts.append(f"{len(each.missing_models)} not in the catalogue")
        if each.differing_models:
            parts.append(f"{len(each.differing_models)} not as the catalogue says")
        if each.unusable_ids:
            parts.append(f"{each.unusable_ids} left out, for their ids cannot be used")
        click.echo(", ".join(parts))
        rows = [
            (
                model.id,
                state,
                f"{model.window:,}" if model.window else "",
                f"{model.max_output:,}" if model.max_output else "",
                " ".join(model.levels),
            )
            for state, model in _list_states(each)
        ]
        if rows:
            print_table([_SERVED_HEADER, *rows], fold=4)
        click.echo()
    if entries := format_entries(comparisons):
        click.echo("# For sandpiper.yaml. No provider states prices: add input and output.")
        click.echo(entries)
