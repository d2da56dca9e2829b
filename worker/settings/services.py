"""What Sandpiper works with: its queue, sandboxes, other sources, pages, metrics, logs, traces."""

import ssl
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from worker.settings.base import URL, Part, ProjectGlobs, Secret, say_form

SCHEMES = ("memory", "redis", "rediss", "sentinel", "sentinels", "amqp", "amqps")
BROKER = f"^({'|'.join(SCHEMES)})://"
"""What a broker's address begins with, as a pattern."""
QueueType = Literal["server", "classic", "quorum"]
"""What kind of queue RabbitMQ is asked for; `server` leaves it to the server."""

EXPECTED = "expected memory://, redis[s]://…, sentinel[s]://… or amqp[s]://…"


class BrokerTlsSettings(Part):
    """`broker_tls:`, of `rediss://`, `sentinels://` and `amqps://`."""

    verify: bool = Field(
        default=True,
        description="Whether the broker's certificate has to hold, and to name its host. `false` "
        "lets whoever stands between read and write the queue.",
    )
    ca_file: str = Field(default="", description="Certificates to trust instead of the usual ones.")

    def get_redis_options(self) -> dict[str, Any]:
        """Return what redis-py takes for `rediss://` and `sentinels://`."""
        needs = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        options = {"ssl_cert_reqs": needs, "ssl_check_hostname": self.verify}
        return {**options, "ssl_ca_certs": self.ca_file} if self.ca_file else options

    def get_amqp_options(self) -> dict[str, Any]:
        """Return what py-amqp takes for `amqps://`; kombu puts the host's name where it is None."""
        if not self.verify:
            return {"cert_reqs": ssl.CERT_NONE}
        options = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}
        return {**options, "ca_certs": self.ca_file} if self.ca_file else options


def check_broker(value: str) -> str:
    """Return a broker's address. Raises ValueError, which says what is expected."""
    urls = value.split(";")
    schemes = {each.partition("://")[0] for each in urls}
    if len(schemes) > 1 or not schemes <= set(SCHEMES):
        raise ValueError(EXPECTED)
    try:
        list_passwords(value)
    except ValueError:
        raise ValueError("expected a URL whose password is percent-encoded") from None
    hosts = [urlsplit(each).netloc.rpartition("@")[2] for each in urls]
    several = len(urls) > 1 or any("," in each for each in hosts)
    if several and schemes & {"redis", "rediss"}:
        raise ValueError(
            "expected one Redis, since of several each would have a queue of its own; name the "
            "Sentinels that watch them: sentinel://one:26379;sentinel://two:26379/0, and "
            "broker_master"
        )
    return value


def list_passwords(brokers: str) -> list[str]:
    """List the passwords in one broker's URL or several, separated by ";", as written and decoded.

    Raises ValueError if one is no URL.
    """
    urls = (brokers, *brokers.split(";"))
    written = [password for each in urls if (password := urlsplit(each).password)]
    return [*written, *map(unquote, written)]


_Size = Annotated[
    str,
    Field(
        pattern=r"^\d+[bkmg]?$",
        json_schema_extra=say_form("expected a size such as 2g: bytes, or with k, m or g"),
    ),
]
_NAME = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"


class SandboxSettings(Part):
    """`sandbox:`. Sizes have the engine's form ("2g")."""

    driver: Literal["docker", "bubblewrap", "kubernetes"] = Field(
        default="docker",
        description="`kubernetes`: a pod for each sandbox, in the cluster of the worker's own pod "
        "or of `KUBECONFIG`. `bubblewrap` where no engine can run.",
    )
    namespace: str = Field(
        default="",
        pattern=_NAME,
        json_schema_extra=say_form("expected the name of a namespace"),
        description="With `kubernetes`: the namespace of sandboxes; by default the worker's own.",
    )
    pull_secrets: tuple[str, ...] = Field(
        default=(),
        description="With `kubernetes`: Secrets in that namespace to pull the image with.",
    )
    pool: int = Field(
        default=0, ge=0, le=32, description="Sandboxes that are kept started ahead of need."
    )
    image: str = Field(
        default="sandpiper-sandbox:latest",
        description="What containers are made of; pin a digest in production. `bubblewrap` has the "
        "machine's own tools.",
    )
    runtime: str = Field(
        default="runc",
        description="The engine's runtime; `runsc` where gVisor is installed. With `kubernetes`, a "
        "RuntimeClass, where it is not `runc`.",
    )
    memory: _Size = Field(
        default="2g", description="Memory of one sandbox: bytes, or with k, m, g."
    )
    cpus: float = Field(default=1.0, gt=0, description="Processors of one sandbox.")
    pids: int = Field(default=256, ge=16, description="Processes of one sandbox.")
    shared_limits: bool = Field(
        default=False,
        description="Take an engine that cannot limit single sandboxes (rootless in a pod); the "
        "engine's own limits hold for all of them together.",
    )
    disk: _Size = Field(default="2g", description="Size of the files of one sandbox.")
    exec_timeout: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds that one command may take."
    )


class _TenantSettings(Part):
    """One entry of `sources.konflux.projects:`."""

    namespace: str = Field(
        pattern=r"^[a-z0-9][-a-z0-9]{0,62}$",
        json_schema_extra=say_form("expected the name of a namespace"),
        description="Where the project's pipelines run.",
    )
    repository: str = Field(
        default="",
        pattern=r"^[a-z0-9A-Z]?[-._a-z0-9A-Z]{0,62}$",
        json_schema_extra=say_form("expected the name of a Repository object"),
        description="The name of its Repository object.",
    )


class _KonfluxSettings(Part):
    """`sources.konflux:`. Off without `url`."""

    url: URL = Field(default="", description="The Kubernetes API; empty: off.")
    archive_url: URL = Field(default="", description="KubeArchive's API, if there is one.")
    ui_url: URL = Field(
        default="",
        description="Konflux's pages, as browsers reach them: notes then link the logs that they "
        "quote. What Pipelines as Code's `custom-console-url-pr-details` has before `/ns/`.",
    )
    ca_file: str = Field(default="", description="Certificates to trust instead of the usual ones.")
    projects: dict[str, _TenantSettings] = Field(
        default={}, description="Where each project's pipelines run, by its path in GitLab."
    )
    token: Secret = Field(default="", description="Reads pipeline runs and logs of Konflux.")


class _TestingFarmSettings(Part):
    """`sources.testing_farm:`. Off without `repositories`."""

    url: URL = Field(default="https://api.testing-farm.io", min_length=1, description="Its API.")
    results_url: URL = Field(
        default="https://artifacts.dev.testing-farm.io",
        min_length=1,
        description="Where its results are.",
    )
    repositories: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Globs of the git URLs that a project's requests test, by its path in GitLab; "
        "none: off.",
    )
    token: Secret = Field(default="", description="Reads requests of Testing Farm.")


class SourceSettings(Part):
    """`sources:`."""

    also_read: ProjectGlobs = Field(
        default=(),
        description="Globs of the projects that every session may read besides its own; their "
        "jobs are shown where they run downstream, their files where a CI configuration includes "
        "them. Only those whose code and job logs are open to everybody who may read the note: "
        "public ones, and internal ones where the note is not public. Members of the merge "
        "request's project are no members of another one, so what a project keeps for its members "
        "is not read.",
    )
    konflux: _KonfluxSettings = _KonfluxSettings()
    testing_farm: _TestingFarmSettings = _TestingFarmSettings()

    def list_link_places(self) -> frozenset[str]:
        """Return where notes may link to in these systems: hosts, with their URL's path if any."""
        farm = self.testing_farm
        pages = (self.konflux.ui_url, farm.results_url if farm.repositories else "")
        parts = (urlsplit(page) for page in pages if page)
        return frozenset(f"{each.netloc}{each.path.rstrip('/')}" for each in parts)


MIN_SECRET_LENGTH = 16
"""Characters. Anyone with a link can try secrets against its signature offline."""


class _SignInSettings(Part):
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
    sign_in: _SignInSettings = _SignInSettings()

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
