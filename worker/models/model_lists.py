"""Parses the lists of models that providers give. Pure; every body is hostile.

See https://platform.claude.com/docs/en/api/models/list, https://ai.google.dev/api/models and
https://platform.openai.com/docs/api-reference/models/list. Compatible servers add fields of their
own for the window: vLLM, OpenRouter and llama.cpp are known.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from worker.models.base import Page, ServedModel
from worker.models.catalogue.model_info import EFFORTS
from worker.models.codec.json_slices import parse_json

_ID = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/@+~-]{0,199}")
"""llama.cpp names a model by the path of its file, unless it was given another name."""
_LONGEST_CURSOR = 2000
_MAX_TOKENS = 1_000_000_000
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")


def parse_anthropic(body: bytes) -> Page:
    """Parse a page of GET /v1/models; retired models are left out. Raises ValueError."""
    answer = _parse_object(body)
    page = _make_page(
        (each.get("id"), _make_claude(each))
        for each in _list_objects(answer.get("data"))
        if each.get("lifecycle") != "retired"
    )
    last = _get_cursor(answer, "last_id")
    if answer.get("has_more") is not True or not last:
        return page
    return Page(page.models, {"after_id": last}, page.unusable_ids)


def parse_gemini(body: bytes) -> Page:
    """Parse a page of GET /v1beta/models; models without generateContent are left out. Raises
    ValueError."""
    answer = _parse_object(body)
    page = _make_page(
        (_strip_prefix(each.get("name")), _make_gemini(each))
        for each in _list_objects(answer.get("models"))
        if _generates(each)
    )
    token = _get_cursor(answer, "nextPageToken")
    return Page(page.models, {"pageToken": token}, page.unusable_ids) if token else page


def parse_openai(body: bytes) -> Page:
    """Parse the answer to GET /models, which has one part only. Raises ValueError."""
    answer = _parse_object(body)
    return _make_page(
        (each.get("id"), _make_compatible(each)) for each in _list_objects(answer.get("data"))
    )


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


def _make_page(entries: Iterable[tuple[Any, ServedModel]]) -> Page:
    """Make a page from ids and what is known about them; only the first of equal ids is kept."""
    models: dict[str, ServedModel] = {}
    skipped = 0
    for name, model in entries:
        if isinstance(name, str) and _ID.fullmatch(name):
            models.setdefault(name, replace(model, id=name))
        else:
            skipped += 1
    return Page(tuple(models.values()), unusable_ids=skipped)


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
