"""`gitlab:`: which projects and merge requests are served, and who may ask."""

import base64
import hmac
from typing import Annotated, Literal

from pydantic import Field, field_validator

from worker.settings.base import Part, ProjectGlobs, Secret, say_form

ACCESS_LEVELS = {"guest": 10, "reporter": 20, "developer": 30, "maintainer": 40, "owner": 50}
Role = Literal["guest", "reporter", "developer", "maintainer", "owner"]

_FileGlob = Annotated[
    str,
    Field(
        pattern="^[^/]",
        json_schema_extra=say_form("expected a glob of files' paths such as docs/*"),
    ),
]
_HostName = Annotated[
    str,
    Field(
        pattern=r"^[^/:@* ]+$",
        json_schema_extra=say_form(
            "expected a host's name such as minio.example.com, without scheme and port"
        ),
    ),
]


class GitLabSettings(Part):
    """`gitlab:`. Tokens and the webhook secret come from the environment."""

    url: str = Field(
        default="https://gitlab.com",
        pattern=r"^https?://[^/?#\s]",
        json_schema_extra=say_form("expected a URL that begins with https:// or http://"),
        description="Where GitLab is.",
    )
    projects: ProjectGlobs = Field(
        default=(),
        description="Globs of the projects served, by path; none: every project in which the read "
        "token's user is a member.",
    )
    reply_min_access: Role = Field(
        default="developer", description="The role from which on a member may ask and command."
    )
    fork_min_access: Role = Field(
        default="developer",
        description="The role in the target project from which on an author's forks are looked at "
        "unasked, and an author's other merge requests teach known failures.",
    )
    tier_min_access: Role = Field(
        default="maintainer",
        description="The role from which on a member may choose the tier `deep` and what costs "
        "like it, force a tier, and choose for a whole project.",
    )
    skip_labels: tuple[str, ...] = Field(
        default=(), description="Merge requests with one of these labels are left alone."
    )
    skip_drafts: bool = Field(default=False, description="Drafts are left alone.")
    debounce: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Seconds that a failure rests before it is looked at, so that quick pushes "
        "get one note.",
    )
    skip_paths: tuple[_FileGlob, ...] = Field(
        default=(),
        description="Merge requests that change only files matching these globs are left alone.",
    )
    bot_merge_requests: bool = Field(
        default=False, description="Merge requests that bots opened are analysed too."
    )
    ci_audience: str = Field(
        default="sandpiper",
        min_length=1,
        description="The `aud` of the id tokens by which CI jobs ask.",
    )
    ci_issuer: str = Field(
        default="",
        description="The issuer of those id tokens, and where browsers reach GitLab to "
        "sign in; empty: `gitlab.url`.",
    )
    download_hosts: tuple[_HostName, ...] = Field(
        default=(),
        description="Hosts with a private address, or behind a proxy, to which GitLab redirects "
        "downloads, like `minio.example.com`; besides its own and public ones.",
    )
    read_token: Secret = Field(default="", description="Reads all that a model may look at.")
    write_token: Secret = Field(default="", description="Writes notes and emoji.")
    webhook_secret: Secret = Field(
        default="",
        description="The secret token of all webhooks, or their signing token (`whsec_…`).",
    )
    webhook_key: Secret = Field(
        default="",
        description="Makes a secret for each project's webhook, which is taken for that project's "
        "events alone; 32 characters or more, signing tokens if it begins with `whsec_`. To change "
        "it: the new one, a space, the old one.",
    )
    setup_token: Secret = Field(
        default="",
        description="A Maintainer's, for `sandpiper doctor --fix` only; else the write token.",
    )

    @field_validator("url")
    @classmethod
    def _cut_slash(cls, value: str) -> str:
        return value.rstrip("/")

    @field_validator("webhook_key")
    @classmethod
    def _check_keys(cls, value: str) -> str:
        keys = _split_keys(value)
        if len(keys) > MAX_KEYS or any(len(key) < MIN_KEY_LENGTH for key in keys):
            raise ValueError(
                f"expected one key, or two with a space between, of {MIN_KEY_LENGTH} characters or "
                "more: `openssl rand -hex 32`"
            )
        return value

    @property
    def webhook_keys(self) -> tuple[str, ...]:
        """The keys that make the secrets of projects' webhooks, the newest first."""
        return _split_keys(self.webhook_key)


SIGNING = "whsec_"
"""What a signing token begins with; a key that begins with it makes signing tokens."""

PARAMETER = "project"
"""The parameter of the webhook's address that names the project."""

MIN_KEY_LENGTH = 32
"""Characters. Whoever has a project's secret can try keys offline."""

MAX_KEYS = 2
"""The new key and, until all webhooks have secrets of it, the old one."""


def _split_keys(text: str) -> tuple[str, ...]:
    """Split what an operator has set into keys, the newest first; they have no spaces."""
    return tuple(text.split())


def derive_secret(key: str, project_id: int) -> str:
    """Derive a project's secret: a signing token if the key looks like one, else 64 hex digits."""
    message = f"sandpiper webhook of project {project_id}".encode()
    digest = hmac.digest(key.encode(), message, "sha256")
    return SIGNING + base64.b64encode(digest).decode() if key.startswith(SIGNING) else digest.hex()


def make_address(url: str, project_id: int) -> str:
    """Make the address of a project's webhook; `url` is the receiver's, with its path."""
    return f"{url}?{PARAMETER}={project_id}"
