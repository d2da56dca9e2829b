"""`pages:`: where stored sessions are shown, and to whom."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from worker.settings.base import Part, Secret, say_form

MIN_SECRET_LENGTH = 16
"""Characters. Anyone with a link can try secrets against its signature offline."""


class SignInSettings(Part):
    """`pages.sign_in:`."""

    group: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$",
        max_length=255,
        description="The full path of a group of GitLab's, whose members, also through groups "
        "above it, sign in as operators. Empty: nobody can sign in.",
    )
    client_id: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_.-]*$",
        max_length=255,
        description="The application's ID, as GitLab shows it. The application is confidential, "
        "has the scope `openid`, and the redirect URI `URL/sign-in/callback` with `pages.url` as "
        "URL.",
    )
    client_secret: Secret = Field(default="", description="The application's secret.")

    @model_validator(mode="after")
    def _check_both(self) -> Self:
        if bool(self.group) != bool(self.client_id):
            raise ValueError("group and client_id belong together: set both, or none")
        return self


class PageSettings(Part):
    """`pages:`."""

    url: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~/-]*)?)?$",
        json_schema_extra=say_form("expected a URL such as https://sandpiper.example.com"),
        description="The address of `serve` as browsers reach it; notes then link to their "
        "session's page. Empty: no page is served.",
    )
    days: float = Field(
        default=30.0, gt=0, le=3650, description="How long such a link is good, in days."
    )
    secret: Secret = Field(
        default="",
        description="What links are signed with, the same for `serve` and workers; empty: a random "
        "key that is made once and kept in the store.",
    )
    operator_token: Secret = Field(
        default="",
        description="Opens the list of sessions at `/sessions`, if `url` is set; empty: there is "
        "none.",
    )
    sign_in: SignInSettings = SignInSettings()

    @field_validator("secret", "operator_token")
    @classmethod
    def _check_length(cls, value: str) -> str:
        if 0 < len(value) < MIN_SECRET_LENGTH:
            raise ValueError(f"expected at least {MIN_SECRET_LENGTH} characters")
        return value

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        """Refuse a sign-in whose cookies no browser would keep."""
        begins = ("https://", "http://localhost:", "http://127.0.0.1:")
        if self.sign_in.group and self.url and not self.url.startswith(begins):
            raise ValueError("sign_in needs a url that begins with https://")
        return self

    def explain_unserved(self) -> str:
        """Explain why no page is served though one is asked for; "" if none is, or one is."""
        if self.operator_token and not self.url:
            return "SANDPIPER_OPERATOR_TOKEN opens nothing: without pages.url no page is served"
        return ""
