"""`models:`: which models are asked, where they are, and their properties."""

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from worker.safety.sentences import suggest_nearest
from worker.safety.untrusted import one_line
from worker.settings.base import Clash, Part, Secret, say_form

TierName = Literal["balanced", "smart", "coding", "deep"]
TIERS: tuple[str, ...] = get_args(TierName)
"""The tiers' names, from the cheapest to the strongest."""

Level = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
LEVELS: tuple[str, ...] = get_args(Level)
"""Reasoning levels, from little to much. The catalogue says which of them a model has."""


class Signal(StrEnum):
    """What raises a session's tier."""

    UNPROVEN = "unproven"
    UNCLEAR = "unclear"
    MALFORMED = "malformed"
    CODE = "code"


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


HeaderName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
        json_schema_extra=say_form("expected a header's name of letters, digits, dashes and _"),
    ),
]
Headers = Annotated[dict[HeaderName, str], Field(repr=False)]
_VARIABLE = r"^([A-Za-z_][A-Za-z0-9_]{0,199})?$"
_NO_VARIABLE = "expected the name of a variable, such as MY_KEY, not what it holds"
_API_VERSION = r"^(\d{4}-\d{2}-\d{2}(-preview)?|preview|latest)?$"
_NO_VERSION = "expected a date such as 2024-10-21, preview, latest, or nothing"
_NO_MODEL = "expected provider/model, like anthropic/claude-sonnet-5-5"

Model = Annotated[
    str, Field(pattern=r"^[^/\s]+/.*\S", json_schema_extra=say_form(_NO_MODEL), min_length=1)
]
ModelOrNone = Annotated[
    str,
    Field(pattern=r"^([^/\s]+/.*\S.*)?$", json_schema_extra=say_form(f"{_NO_MODEL}, or nothing")),
]
"""A model with its provider."""


def _write_date(value: object) -> object:
    """Return a date as text, which YAML reads as a date where it is not quoted."""
    return value.isoformat() if isinstance(value, date) else value


class ProviderSettings(Part):
    """One entry of `models.providers:`. An unset field falls back to the built-in provider's."""

    api: Literal["", "anthropic", "gemini", "openai-chat", "openai-responses"] = Field(
        default="", description="What a server of your own speaks; its name is then any you like."
    )
    base_url: str = Field(default="", description="Where its API is.")
    key_env: str = Field(
        default="",
        json_schema_extra={"pattern": _VARIABLE, **say_form(_NO_VARIABLE)},
        description="The variable that holds its key, as `X` or as a file that `X_FILE` names; "
        "else the built-in provider's, and a server of your own is sent none.",
    )
    auth: Literal["", "key", "bearer", "azure", "bedrock", "vertex", "none"] = Field(
        default="",
        description="How requests show who sends them: `key` as usual with the `api`, `bearer` "
        "with a bearer token, `azure` with `api-key`, `bedrock` by a signature with AWS's "
        "credentials (with `key_env` by a Bedrock API key), `vertex` with Google's, `none` not at "
        "all.",
    )
    headers: Headers = Field(
        default={},
        description="Further headers, which are kept as secret as keys; a value `$X` is that of "
        "the variable `X`. What `auth` sets cannot be among them.",
    )
    region: str = Field(default="", description="AWS's region, with `auth: bedrock`.")
    api_version: Annotated[str, BeforeValidator(_write_date, json_schema_input_type=str)] = Field(
        default="",
        json_schema_extra={"pattern": _API_VERSION, **say_form(_NO_VERSION)},
        description="`auth: azure`: a date for the dated API, by the deployment's path; empty: the "
        "v1 API.",
    )
    project: str = Field(default="", description="Google Cloud's project, for Vertex AI.")
    location: str = Field(default="", description="Google Cloud's location, for Vertex AI.")
    max_tokens_field: Literal["", "max_tokens", "max_completion_tokens"] = Field(
        default="",
        description="Chat Completions: the field by which the server takes the answer's limit.",
    )
    send_reasoning: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = Field(
        default="",
        description="Chat Completions: the field in which the server wants thinking back.",
    )
    call_id: str = Field(
        default="",
        json_schema_extra={"format": "regex"},
        description="Chat Completions: what the server takes for a call's id, as a regular "
        "expression.",
    )
    key: Secret = Field(default="", description="The provider's key.")

    @field_validator("key_env")
    @classmethod
    def _check_key_env(cls, value: str) -> str:
        if not re.fullmatch(_VARIABLE, value):
            raise ValueError(_NO_VARIABLE)
        return value

    @field_validator("api_version")
    @classmethod
    def _check_api_version(cls, value: str) -> str:
        if not re.fullmatch(_API_VERSION, value):
            raise ValueError(_NO_VERSION)
        return value

    @field_validator("call_id")
    @classmethod
    def _check_call_id(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"expected a regular expression ({error})") from error
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not (text.isascii() and text.isprintable() and text.strip() == text and text):
                raise ValueError(f"expected printable ASCII as the value of {name}")
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("expected each header once, whatever its case")
        return value


ProviderName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        json_schema_extra=say_form(
            "expected a provider's name of letters, digits, dots, dashes and underscores"
        ),
    ),
]


class _PriceSettings(Part):
    """Dollars per million tokens; a cache price that is not given is that of plain input."""

    input: Dollars | None = Field(default=None, description="Dollars per million input tokens.")
    output: Dollars | None = Field(default=None, description="Dollars per million output tokens.")
    cache_read: Dollars | None = Field(
        default=None, description="Dollars per million tokens read from the cache."
    )
    cache_write: Dollars | None = Field(
        default=None, description="Dollars per million tokens written to the cache."
    )
    cache_write_1h: Dollars | None = Field(default=None, description="The same, kept for an hour.")


class TierSettings(_PriceSettings):
    """Prices for prompts above a number of tokens, or from a day on."""

    above: int = Field(default=0, ge=0, description="Above so many tokens of prompt.")
    since: date | None = Field(default=None, description="From this day on.")


class _LevelSettings(Part):
    """One entry of a model's `levels:`."""

    window: int | None = Field(
        default=None, ge=1, description="The context window at this level, if not the model's."
    )
    thinking_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Tokens of thinking that stand for the level, where the model takes no name.",
    )


class _CatalogueSettings(_PriceSettings):
    """One entry of `models.catalogue:`: a model that is not built in, or corrects one that is."""

    like: str | None = Field(
        default=None,
        description="A known model of which everything holds that is not stated here, such as that "
        "of an Azure deployment or of an ARN.",
    )
    window: int | None = Field(default=None, ge=1, description="Its context window, in tokens.")
    max_output: int | None = Field(default=None, ge=1, description="Its longest answer, in tokens.")
    min_cached: int | None = Field(
        default=None, ge=0, description="Not used any more; it may be left out."
    )
    binds_thinking: bool | None = Field(
        default=None, description="Whether it takes its thinking back only after the same prefix."
    )
    effort: Level | None = Field(default=None, description="How much it is to think.")
    chat_effort: Level | None = Field(
        default=None, description="The same, where it is asked by Chat Completions."
    )
    levels: dict[Level, _LevelSettings] | None = Field(
        default=None,
        description="All its reasoning levels, by their names; a level that is not here is "
        "refused.",
    )
    default_level: Level | None = Field(
        default=None, description="The level of a request that states none."
    )
    temperature: bool | None = Field(
        default=None, description="Whether it takes `temperature`, which is never sent."
    )
    text_tools: bool | None = Field(
        default=None,
        description="Chat Completions: whether its calls are asked for as text from the start; "
        "else only once the server has refused native tools.",
    )
    forced_decision: bool | None = Field(
        default=None,
        description="Chat Completions: whether it has to call a tool in every answer, and ends "
        "its work by a tool `answer`; for servers that obey `tool_choice: required`.",
    )
    tiers: tuple[TierSettings, ...] | None = Field(
        default=None, description="Prices for long prompts, or from a day on."
    )


class _ModelTierSettings(Part):
    """One entry of `models.tiers:`."""

    model: Model = Field(description="The tier's model, as `provider/model`.")
    reasoning: Level | None = Field(
        default=None, description="Its reasoning level; not set: the model's own."
    )


def read_reply(value: object) -> object:
    """Return the part that a plain name of `models.reply` stands for."""
    return {"model": value} if isinstance(value, str) else value


class _ReplySettings(Part):
    """`models.reply:`, or only its `model`."""

    model: str = Field(
        default="",
        description="What answers replies that need no tools: a tier of `models.tiers`, or a "
        "model as `provider/model`. Where it calls a tool or gives no answer, the session's own "
        "model goes on. Empty: the session's own model. `models.reply: NAME` sets this alone.",
    )
    reasoning: Level | None = Field(
        default=None, description="Its reasoning level; not set: the tier's, or the model's own."
    )
    max_output: int = Field(
        default=1500, ge=100, le=32_000, description="Tokens that such an answer may have."
    )
    timeout: float = Field(
        default=60.0, gt=0, le=600, description="Seconds that such an answer may take."
    )


class ModelSettings(Part):
    """`models:`. `fallback` are tried in order when `default` does not answer."""

    default: Model = Field(
        default="anthropic/claude-sonnet-5-5", description="The model, as `provider/model`."
    )
    fallback: tuple[Model, ...] = Field(
        default=(), description="Models to try in order when the default does not answer."
    )
    helper: ModelOrNone = Field(
        default="",
        description="A small model, as `provider/model`, for questions of the host's own, such as "
        "summaries. Empty: rules take its place.",
    )
    helper_timeout: float = Field(
        default=20.0, gt=0, le=600, description="Seconds that the helper's answer may take."
    )
    tiers: dict[TierName, _ModelTierSettings] = Field(
        default={},
        description="Models by tier, from cheap to strong: `balanced`, `smart`, `coding`, `deep`. "
        "A missing one is the default model. Empty: there are no tiers.",
    )
    tier: TierName = Field(default="balanced", description="The tier where nothing else says.")
    upgrade: tuple[Signal, ...] = Field(
        default=(Signal.UNPROVEN, Signal.UNCLEAR, Signal.MALFORMED),
        description="What raises a session's tier: answers whose quotes stay unproven, unclear "
        "verdicts, malformed answers, work on code.",
    )
    reply: Annotated[
        _ReplySettings, BeforeValidator(read_reply, json_schema_input_type=_ReplySettings | str)
    ] = _ReplySettings()
    choosable: tuple[str, ...] = Field(
        default=(),
        description="Globs of the models, as `provider/model`, that a comment may choose besides "
        "those that are configured.",
    )
    providers: dict[ProviderName, ProviderSettings] = Field(
        default={},
        description="What differs from a built-in provider, by its name; and servers of your own, "
        "each with its `api`, by any other name.",
    )
    catalogue: dict[str, _CatalogueSettings] = Field(
        default={},
        description="What is to be known of a model that is not built in, by its name.",
    )

    @model_validator(mode="after")
    def _check_reply(self) -> Self:
        name = self.reply.model
        if name and not all(name.partition("/")) and name not in self.tiers:
            there = ", ".join(self.tiers) or "none"
            raise Clash(
                f"expected a tier of models.tiers (there: {there}) or provider/model; found "
                f"'{one_line(name, 60)}'{suggest_nearest(name, self.tiers)}",
                "reply.model",
                "reply",
                "tiers",
            )
        return self

    def use_alone(self, model: str) -> "ModelSettings":
        """Return the settings with one model for all turns, before the fallbacks."""
        return self.model_copy(update={"default": model, "tiers": {}, "reply": _ReplySettings()})

    def get_provider(self, name: str) -> ProviderSettings:
        """Return the settings of a provider; all fields are unset if it has none."""
        return self.providers.get(name, ProviderSettings())
