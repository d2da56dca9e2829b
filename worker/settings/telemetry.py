"""`metrics:`, `log:` and `traces:`: what is recorded about the work, and where."""

from typing import Literal

from pydantic import Field

from worker.settings.base import URL, Part


class MetricsSettings(Part):
    """`metrics:`."""

    enabled: bool = Field(default=True, description="Whether `/metrics` answers.")
    port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="The port of a worker's `/metrics`, 0: none. The receiver's is its own, or "
        "that of `serve --metrics-port`.",
    )


class LogSettings(Part):
    """`log:`."""

    format: Literal["text", "json"] = Field(
        default="text", description="With `json` each record is one object on one line."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="What is logged: this and what is graver."
    )


class TraceSettings(Part):
    """`traces:`."""

    endpoint: URL = Field(
        default="",
        description="The base URL of an OTLP/HTTP collector; empty: no traces.",
    )
