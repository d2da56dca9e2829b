"""Compares the models that a provider serves with those that the catalogue describes. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from worker.models.base import ServedModel
from worker.models.catalogue.model_info import Catalogue, ModelInfo


@dataclass(frozen=True, slots=True)
class Comparison:
    """The models that `provider` serves, sorted by what the catalogue says about them.

    With `has_plain_names` they have the same names on all routes, so entries omit the provider.

    For `differing_models` the catalogue has a larger window than the provider states, or levels
    that the provider does not list. `assumed_models` are only variants of described models.
    """

    provider: str
    described_models: tuple[ServedModel, ...] = ()
    differing_models: tuple[ServedModel, ...] = ()
    assumed_models: tuple[ServedModel, ...] = ()
    unknown_models: tuple[ServedModel, ...] = ()
    unusable_ids: int = 0
    has_plain_names: bool = False

    @property
    def missing_models(self) -> tuple[ServedModel, ...]:
        """The models that have no entry of their own in the catalogue."""
        return (*self.assumed_models, *self.unknown_models)

    @property
    def all_models(self) -> tuple[ServedModel, ...]:
        """All models."""
        return (*self.described_models, *self.differing_models, *self.missing_models)

    def has_model(self, model: str) -> bool:
        """Whether the list has the model id, or one that differs only by a date at the end."""
        return any(_is_same(model, each.id) for each in self.all_models)


def compare_models(
    provider: str,
    served: Iterable[ServedModel],
    unusable_ids: int,
    catalogue: Catalogue,
    *,
    has_plain_names: bool,
) -> Comparison:
    """Sort the models that `provider` serves by what the catalogue says about them."""
    by_kind: dict[str, list[ServedModel]] = {}
    for model in served:
        entry = catalogue.resolve_name(f"{provider}/{model.id}")
        if not entry.name:
            kind = "unknown_models"
        elif entry.is_assumed:
            kind = "assumed_models"
        else:
            kind = "differing_models" if _differs(model, entry.info) else "described_models"
        by_kind.setdefault(kind, []).append(model)
    sorted_models = {kind: tuple(models) for kind, models in by_kind.items()}
    return Comparison(
        provider, **sorted_models, unusable_ids=unusable_ids, has_plain_names=has_plain_names
    )


def format_entries(comparisons: Sequence[Comparison]) -> str:
    """Return YAML for `models.catalogue` with what the providers state about models that differ
    from the catalogue or are missing there; "" if they state nothing about them."""
    lines = [
        f"    {json.dumps(_make_key(each, model))}: {_format_fields(model)}"
        for each in comparisons
        for model in (*each.differing_models, *each.missing_models)
        if _list_fields(model)
    ]
    return "\n".join(["models:", "  catalogue:", *lines]) if lines else ""


def _make_key(comparison: Comparison, model: ServedModel) -> str:
    return model.id if comparison.has_plain_names else f"{comparison.provider}/{model.id}"


def _list_fields(model: ServedModel) -> dict[str, Any]:
    """Return the fields of an entry; `max_output` only if it is smaller than the window."""
    sizes = {"window": model.window} if model.window else {}
    if 0 < model.max_output < model.window:
        sizes["max_output"] = model.max_output
    levels = {"levels": {name: dict[str, Any]() for name in model.levels}} if model.levels else {}
    return {**sizes, **levels}


def _format_fields(model: ServedModel) -> str:
    """Return the fields as YAML: JSON without its quotes."""
    return json.dumps(_list_fields(model)).replace('"', "")


def _differs(model: ServedModel, info: ModelInfo) -> bool:
    """Whether the model has a smaller window than the catalogue says, or lacks some of its levels,
    so that requests would be refused."""
    names = {each.name for each in info.levels if each.budget is None and each.name != "none"}
    return 0 < model.window < info.window or bool(model.levels and names - set(model.levels))


def _is_same(one: str, other: str) -> bool:
    """Whether two ids name the same model: equal ids, or an undated id and its dated snapshot."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    rest = longer.removeprefix(shorter)
    dated = rest[:1] in {"-", "@"} and rest[1:].isdecimal() and len(rest) == len("-20261123")
    return longer == shorter or (longer.startswith(shorter) and dated)
