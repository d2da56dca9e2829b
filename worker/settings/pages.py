"""`pages:`: where stored sessions are shown, and to whom."""

from pydantic import Field, field_validator

from worker.settings.base import Part, Secret

MIN_SECRET_LENGTH = 16
"""Characters. Anyone with a link can try secrets against its signature offline."""


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
        default="",
        description="What links are signed with; else a key that is derived from the webhook's "
        "secret, if that has 16 characters or more.",
    )
    operator_token: Secret = Field(
        default="", description="Opens the list of sessions at `/sessions`; empty: there is none."
    )

    @field_validator("secret", "operator_token")
    @classmethod
    def _check_length(cls, value: str) -> str:
        if 0 < len(value) < MIN_SECRET_LENGTH:
            raise ValueError(f"expected at least {MIN_SECRET_LENGTH} characters")
        return value

    def get_signing_secret(self, webhook_secret: str) -> str:
        """Return the secret that links are signed with; "" if none is long enough."""
        return self.secret or (webhook_secret if len(webhook_secret) >= MIN_SECRET_LENGTH else "")

    def explain_signing_risk(self, webhook_secret: str) -> str:
        """Explain why signed links are unsafe; "" if there are none, or if `secret` is set."""
        if self.secret or not (self.url or self.operator_token):
            return ""
        if self.get_signing_secret(webhook_secret):
            return "links to sessions are signed with a key from the webhook's secret"
        return "links to sessions cannot be signed: the webhook's secret is too short for it"
