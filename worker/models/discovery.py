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

from worker.models.base import Listing, ListPart, ServedModel
from worker.models.catalogue import EFFORTS, Catalogue
from worker.models.codec import parse_json
from worker.models.connection import Connection

_MAX_ANSWER = 8 * 1024 * 1024
MAX_PARTS = 50
_MAX_MODELS = 20_000
LIST_TIMEOUT = 15.0

_ID = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/@+~-]{0,199}")
"""llama.cpp names a model by the path of its file, unless it was given another name."""
_LONGEST_CURSOR = 2000
_LENGTH_OF_DATE = len("-20261123")
_MAX_TOKENS = 1_000_000_000
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")


def fetch_models(
    connection: Connection, listing: Listing, url: httpx.URL, deadline: float
) -> ListPart:
    """Fetch the whole list of models at `url`, sorted by id, as one part. Raises ModelError."""
    models: dict[str, ServedModel] = {}
    skipped, query = 0, dict(listing.query)
    for _ in range(MAX_PARTS):
        received = connection.send(url.copy_merge_params(query), None, deadline, _MAX_ANSWER)
        if received.status != httpx.codes.OK:
            refusal = listing.classify(received.status, received.body)
            raise connection.make_refusal(received, refusal)
        try:
            page = listing.parse(received.body)
        except ValueError as error:
            reason = connection.quote_text(str(error))
            message = f"the list of models cannot be read: {reason}"
            raise connection.make_failure(message, kind="unread", transient=False) from error
        models |= {model.id: model for model in page.models if model.id not in models}
        skipped += page.unusable_ids
        if not page.rest:
            return ListPart(tuple(models[name] for name in sorted(models)), unusable_ids=skipped)
        if len(models) > _MAX_MODELS:
            break
        query |= page.rest
    message = f"the list of models does not end after {len(models)} of them"
    raise connection.make_failure(message, transient=False)


# -------------------------------------------------------------------------- the forms of the lists


def parse_anthropic_list(body: bytes) -> ListPart:
    """Parse a page of GET /v1/models; retired models are left out. Raises ValueError."""
    answer = _parse_object(body)
    last = _get_cursor(answer, "last_id") if answer.get("has_more") is True else ""
    entries: list[tuple[Any, ServedModel]] = []
    for each in _list_objects(answer.get("data")):
        if each.get("lifecycle") == "retired":
            continue
        capabilities = _get_object(each, "capabilities")
        effort = _get_object(capabilities, "effort")
        levels = tuple(name for name in EFFORTS[1:] if _is_supported(effort, name))
        thinking_types = _get_object(_get_object(capabilities, "thinking"), "types")
        if levels and _is_supported(thinking_types, "disabled"):
            levels = ("none", *levels)
        window, max_output = _get_tokens(each, "max_input_tokens"), _get_tokens(each, "max_tokens")
        entries.append((each.get("id"), ServedModel("", window, max_output, levels)))
    return _make_page(entries, {"after_id": last} if last else {})


def _is_supported(capabilities: Mapping[str, Any], name: str) -> bool:
    return _get_object(capabilities, name).get("supported") is True


def parse_gemini_list(body: bytes) -> ListPart:
    """Parse a page of GET /v1beta/models; models without generateContent are left out. Raises
    ValueError."""
    answer = _parse_object(body)
    token = _get_cursor(answer, "nextPageToken")
    entries: list[tuple[Any, ServedModel]] = []
    for each in _list_objects(answer.get("models")):
        methods = each.get("supportedGenerationMethods")
        if isinstance(methods, list) and "generateContent" not in methods:
            continue
        name = each.get("name")
        name = name.removeprefix("models/") if isinstance(name, str) else name
        sizes = _get_tokens(each, "inputTokenLimit"), _get_tokens(each, "outputTokenLimit")
        entries.append((name, ServedModel("", *sizes)))
    return _make_page(entries, {"pageToken": token} if token else {})


def parse_openai_list(body: bytes) -> ListPart:
    """Parse the answer to GET /models, which has one part only. Raises ValueError."""
    entries: list[tuple[Any, ServedModel]] = []
    for each in _list_objects(_parse_object(body).get("data")):
        meta = _get_object(each, "meta")
        stated = [*(_get_tokens(each, name) for name in _WINDOWS)]
        stated += _get_tokens(meta, "n_ctx"), _get_tokens(meta, "n_ctx_train")
        max_output = _get_tokens(_get_object(each, "top_provider"), "max_completion_tokens")
        window = next(filter(None, stated), 0)
        entries.append((each.get("id"), ServedModel("", window, max_output)))
    return _make_page(entries, {})


def _make_page(entries: Iterable[tuple[Any, ServedModel]], rest: Mapping[str, str]) -> ListPart:
    """Make a page from ids and what is known about them; only the first of equal ids is kept."""
    models: dict[str, ServedModel] = {}
    skipped = 0
    for name, model in entries:
        if isinstance(name, str) and _ID.fullmatch(name):
            models.setdefault(name, replace(model, id=name))
        else:
            skipped += 1
    return ListPart(tuple(models.values()), rest, skipped)


def _parse_object(body: bytes) -> Mapping[str, Any]:
    answer = parse_json(body.decode())
    if not isinstance(answer, dict):
        raise ValueError("a JSON object was expected")
    return answer


def _list_objects(value: Any) -> Iterable[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise ValueError("it holds no list of models")
    return (each if isinstance(each, dict) else {} for each in value)


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
        for each in self.all_models:
            longer, shorter = sorted((model, each.id), key=len, reverse=True)
            rest = longer.removeprefix(shorter)
            dated = rest[:1] in {"-", "@"} and rest[1:].isdecimal() and len(rest) == _LENGTH_OF_DATE
            if longer == shorter or (longer.startswith(shorter) and dated):
                return True
        return False


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
            # Requests would be refused by a smaller window, or for a level that is not there.
            levels = {each.name for each in entry.info.levels if each.budget is None} - {"none"}
            lacks_levels = bool(model.levels) and bool(levels - set(model.levels))
            differs = 0 < model.window < entry.info.window or lacks_levels
            kind = "differing_models" if differs else "described_models"
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
            fields: dict[str, Any] = {"window": model.window} if model.window else {}
            if 0 < model.max_output < model.window:
                fields["max_output"] = model.max_output
            if model.levels:
                fields["levels"] = {name: {} for name in model.levels}
            if fields:
                key = model.id if each.has_plain_names else f"{each.provider}/{model.id}"
                # JSON without its quotes is YAML.
                values = json.dumps(fields).replace('"', "")
                lines.append(f"    {json.dumps(key)}: {values}")
    return "\n".join(["models:", "  catalogue:", *lines]) if lines else ""
