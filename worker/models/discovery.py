"""What a provider serves: fetches its list of models, and compares it with the catalogue.

See https://platform.claude.com/docs/en/api/models/list, https://ai.google.dev/api/models and
https://platform.openai.com/docs/api-reference/models/list. Compatible servers add fields of their
own for the window: vLLM, OpenRouter and llama.cpp are known. Every body is hostile.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from worker.models.base import Listing, Page, ServedModel
from worker.models.catalogue import EFFORTS, Catalogue, ModelInfo
from worker.models.codec import parse_json
from worker.models.connection import Connection

_MAX_ANSWER = 8 * 1024 * 1024
MAX_PARTS = 50
_MAX_MODELS = 20_000
LIST_TIMEOUT = 15.0

_ID = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/@+~-]{0,199}")
"""llama.cpp names a model by the path of its file, unless it was given another name."""
_LONGEST_CURSOR = 2000
_MAX_TOKENS = 1_000_000_000
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")


def fetch_models(connection: Connection, listing: Listing, url: httpx.URL, deadline: float) -> Page:
    """Fetch the whole list of models at `url`, sorted by id, as one part. Raises ModelError."""
    models: dict[str, ServedModel] = {}
    skipped, query = 0, dict(listing.query)
    for _ in range(MAX_PARTS):
        page = _fetch_part(connection, listing, url.copy_merge_params(query), deadline)
        models |= {model.id: model for model in page.models if model.id not in models}
        skipped += page.unusable_ids
        if not page.rest:
            return Page(tuple(models[name] for name in sorted(models)), unusable_ids=skipped)
        if len(models) > _MAX_MODELS:
            break
        query |= page.rest
    message = f"the list of models does not end after {len(models)} of them"
    raise connection.errors.make_failure(message, transient=False)


def _fetch_part(connection: Connection, listing: Listing, url: httpx.URL, deadline: float) -> Page:
    received = connection.send(url, None, deadline, _MAX_ANSWER)
    if received.status != httpx.codes.OK:
        failure = listing.classify(received.status, received.body)
        raise connection.make_refusal(received, failure)
    try:
        return listing.parse(received.body)
    except ValueError as error:
        reason = connection.errors.quote_text(str(error))
        message = f"the list of models cannot be read: {reason}"
        raise connection.errors.make_failure(message, kind="unread", transient=False) from error


# -------------------------------------------------------------------------- the forms of the lists


def parse_anthropic_list(body: bytes) -> Page:
    """Parse a page of GET /v1/models; retired models are left out. Raises ValueError."""
    answer = _parse_object(body)
    last = _get_cursor(answer, "last_id") if answer.get("has_more") is True else ""
    return _make_page(
        (
            (each.get("id"), _make_claude(each))
            for each in _list_objects(answer.get("data"))
            if each.get("lifecycle") != "retired"
        ),
        {"after_id": last} if last else {},
    )


def parse_gemini_list(body: bytes) -> Page:
    """Parse a page of GET /v1beta/models; models without generateContent are left out. Raises
    ValueError."""
    answer = _parse_object(body)
    token = _get_cursor(answer, "nextPageToken")
    return _make_page(
        (
            (_strip_prefix(each.get("name")), _make_gemini(each))
            for each in _list_objects(answer.get("models"))
            if _generates(each)
        ),
        {"pageToken": token} if token else {},
    )


def parse_openai_list(body: bytes) -> Page:
    """Parse the answer to GET /models, which has one part only. Raises ValueError."""
    answer = _parse_object(body)
    entries = _list_objects(answer.get("data"))
    return _make_page((each.get("id"), _make_compatible(each)) for each in entries)


def _make_claude(entry: Mapping[str, Any]) -> ServedModel:
    capabilities = _get_object(entry, "capabilities")
    effort = _get_object(capabilities, "effort")
    levels = tuple(name for name in EFFORTS[1:] if _is_supported(effort, name))
    thinking_types = _get_object(_get_object(capabilities, "thinking"), "types")
    if levels and _is_supported(thinking_types, "disabled"):
        levels = ("none", *levels)
    window, max_output = _get_tokens(entry, "max_input_tokens"), _get_tokens(entry, "max_tokens")
    return ServedModel("", window, max_output, levels)


def _is_supported(capabilities: Mapping[str, Any], name: str) -> bool:
    return _get_object(capabilities, name).get("supported") is True


def _make_gemini(entry: Mapping[str, Any]) -> ServedModel:
    window = _get_tokens(entry, "inputTokenLimit")
    return ServedModel("", window, _get_tokens(entry, "outputTokenLimit"))


def _make_compatible(entry: Mapping[str, Any]) -> ServedModel:
    window = next(filter(None, (_get_tokens(entry, name) for name in _WINDOWS)), 0)
    meta = _get_object(entry, "meta")
    window = window or _get_tokens(meta, "n_ctx") or _get_tokens(meta, "n_ctx_train")
    max_output = _get_tokens(_get_object(entry, "top_provider"), "max_completion_tokens")
    return ServedModel("", window, max_output)


_NO_REST: Mapping[str, str] = {}


def _make_page(
    entries: Iterable[tuple[Any, ServedModel]], rest: Mapping[str, str] = _NO_REST
) -> Page:
    """Make a page from ids and what is known about them; only the first of equal ids is kept."""
    models: dict[str, ServedModel] = {}
    skipped = 0
    for name, model in entries:
        if isinstance(name, str) and _ID.fullmatch(name):
            models.setdefault(name, replace(model, id=name))
        else:
            skipped += 1
    return Page(tuple(models.values()), rest, skipped)


def _parse_object(body: bytes) -> Mapping[str, Any]:
    answer = parse_json(body.decode())
    if not isinstance(answer, dict):
        raise ValueError("a JSON object was expected")
    return answer


def _list_objects(value: Any) -> Iterable[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise ValueError("it holds no list of models")
    return (each if isinstance(each, dict) else {} for each in value)


def _generates(entry: Mapping[str, Any]) -> bool:
    """Whether a model supports generateContent; assumed if the list does not say."""
    methods = entry.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def _strip_prefix(name: Any) -> Any:
    return name.removeprefix("models/") if isinstance(name, str) else name


def _get_cursor(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    return value if isinstance(value, str) and len(value) <= _LONGEST_CURSOR else ""


def _get_object(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = members.get(name)
    return value if isinstance(value, dict) else {}


def _get_tokens(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= _MAX_TOKENS else 0


# ------------------------------------------------------------------------ what the catalogue lacks


@dataclass(frozen=True, slots=True)
class Comparison:
    """The models that `provider` serves, sorted by what the catalogue says about them."""

    provider: str
    described_models: tuple[ServedModel, ...] = ()
    differing_models: tuple[ServedModel, ...] = ()
    """The catalogue has a larger window than the provider states, or levels that it does not
    list."""
    assumed_models: tuple[ServedModel, ...] = ()
    """Only variants of described models."""
    unknown_models: tuple[ServedModel, ...] = ()
    unusable_ids: int = 0
    has_plain_names: bool = False
    """They have the same names on all routes, so entries omit the provider."""

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
    lines: list[str] = []
    for each in comparisons:
        for model in (*each.differing_models, *each.missing_models):
            if fields := _list_fields(model):
                key = model.id if each.has_plain_names else f"{each.provider}/{model.id}"
                # JSON without its quotes is YAML.
                values = json.dumps(fields).replace('"', "")
                lines.append(f"    {json.dumps(key)}: {values}")
    return "\n".join(["models:", "  catalogue:", *lines]) if lines else ""


def _list_fields(model: ServedModel) -> dict[str, Any]:
    """Return the fields of an entry; `max_output` only if it is smaller than the window."""
    sizes = {"window": model.window} if model.window else {}
    if 0 < model.max_output < model.window:
        sizes["max_output"] = model.max_output
    levels = {"levels": {name: dict[str, Any]() for name in model.levels}} if model.levels else {}
    return {**sizes, **levels}


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
