"""All settings in one tree."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from worker.settings.base import Clash, Part, Secret, list_secrets, say_form
from worker.settings.gitlab import GitLabSettings
from worker.settings.limits import LimitSettings
from worker.settings.models import ModelSettings
from worker.settings.runs import (
    ContextSettings,
    IncidentSettings,
    KnownSettings,
    LedgerSettings,
    LoopSettings,
    NoteSettings,
    RetentionSettings,
    RetrySettings,
    WorkerSettings,
)
from worker.settings.services import (
    BROKER,
    EXPECTED,
    BrokerTlsSettings,
    LogSettings,
    MetricsSettings,
    PageSettings,
    QueueType,
    SandboxSettings,
    SourceSettings,
    TraceSettings,
    check_broker,
    list_passwords,
)


class Settings(Part):
    """Everything an operator can set."""

    gitlab: GitLabSettings = GitLabSettings()
    broker: str = Field(
        default="memory://",
        json_schema_extra={"pattern": BROKER, **say_form(EXPECTED)},
        description="The queue: `memory://` inside `serve`, `redis://…`, `rediss://…`, `amqp://…` "
        "or `amqps://…`; `sentinel://one:26379;sentinel://two:26379/0` for the Redis that "
        "Sentinels name (`sentinels://` where both speak TLS); user and password there are those "
        "of the Redis. A Redis Cluster cannot be a queue.",
    )
    broker_tls: BrokerTlsSettings = BrokerTlsSettings()
    broker_master: str = Field(
        default="mymaster",
        min_length=1,
        description="How the Sentinels of `sentinel://` call their Redis.",
    )
    broker_sentinel_password: Secret = Field(
        default="", description="What the Sentinels of `sentinel://` themselves want to hear."
    )
    broker_queue: QueueType = Field(
        default="server",
        description="What kind of queue RabbitMQ makes: `quorum` for a cluster, `classic`, or what "
        "the server itself makes. One that exists keeps its kind, and another one is refused at "
        "start.",
    )
    store: str = Field(
        default="file:///var/lib/sandpiper",
        pattern=r"^(file|s3)://",
        json_schema_extra=say_form("expected file:///folder or s3://bucket/prefix"),
        description="Where sessions are kept: `file:///folder` or `s3://bucket/prefix`. A user who "
        "has set none, and can neither find nor make the default's folder, has one of their own: "
        "`~/.local/state/sandpiper`.",
    )
    s3_endpoint: SkipJsonSchema[str] = Field(
        default="", exclude=True, description="Another S3 server than Amazon's."
    )
    s3_addressing: Literal["auto", "path", "virtual"] = Field(
        default="auto",
        description="Where an S3 server expects the bucket's name: in the `path`, or `virtual`, in "
        "front of its own host's. `auto` looks which of them `AWS_ENDPOINT_URL_S3` answers to, and "
        "is `path` for Amazon's.",
    )
    sandbox: SandboxSettings = SandboxSettings()
    models: ModelSettings = ModelSettings()
    limits: LimitSettings = LimitSettings()
    context: ContextSettings = ContextSettings()
    loop: LoopSettings = LoopSettings()
    retention: RetentionSettings = RetentionSettings()
    note: NoteSettings = NoteSettings()
    worker: WorkerSettings = WorkerSettings()
    known: KnownSettings = KnownSettings()
    incidents: IncidentSettings = IncidentSettings()
    tests: LedgerSettings = LedgerSettings()
    retry: RetrySettings = RetrySettings()
    sources: SourceSettings = SourceSettings()
    pages: PageSettings = PageSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    traces: TraceSettings = TraceSettings()
    workflows: str = Field(
        default="", description="A folder of workflow files; empty: the bundled ones."
    )

    @field_validator("broker")
    @classmethod
    def _check_broker(cls, value: str) -> str:
        return check_broker(value)

    @model_validator(mode="after")
    def _check_uses(self) -> Self:
        """Refuse a secret that others know where nobody else may know it."""
        for name, key, kept in (
            ("SANDPIPER_PAGE_SECRET", "pages.secret", (self.pages.secret,)),
            ("GITLAB_WEBHOOK_KEY", "gitlab.webhook_key", self.gitlab.webhook_keys),
        ):
            if self.gitlab.webhook_secret and self.gitlab.webhook_secret in kept:
                raise Clash(
                    f"{name} is the webhook's secret, which others know: set it to the output of "
                    "`openssl rand -hex 32`, or to nothing",
                    key,
                    "gitlab.webhook_secret",
                )
        return self

    def list_secrets(self) -> tuple[str, ...]:
        """Return every secret that is set, for redaction."""
        passwords = list_passwords(self.broker)
        secrets = (*list_secrets(self), *self.gitlab.webhook_keys, *passwords)
        return tuple(dict.fromkeys(filter(None, secrets)))
