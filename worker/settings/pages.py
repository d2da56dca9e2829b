"""`pages:`: who may look at what is stored, and where."""

from pydantic import Field, field_validator

from worker.settings.base import Part, Secret


class PageSettings(Part):
    """`pages:`."""

    url: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~/-]*)?)?$",
        description="The address of `serve` as browsers reach it; notes then link to their "
        "session's page.",
    )
    days: float = Field(
        default=30.0, gt=0, le=3650, description="How long such a link is good, in days."
    )
    secret: Secret = Field(
        default="", description="What links are signed with; else the webhook's secret is used."
    )
    operator_token: Secret = Field(
        default="", description="Opens the list of sessions at `/sessions`; empty: there is none."
    )

    @field_validator("secret", "operator_token")
    @classmethod
    def _long(cls, value: str) -> str:
        if 0 < len(value) < 16:
            raise ValueError("expected at least 16 characters")
        return value
