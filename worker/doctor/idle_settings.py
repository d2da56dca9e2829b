"""Settings that do nothing, or something else than they say, as others stand: one table.

What falls back to something by design is warned of, when a process starts and by `sandpiper
doctor`. What cannot work as it is written is refused at start: one field's value, or two of one
part, by the part itself; a workflow's, beside the settings, here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from worker.errors import ConfigError
from worker.settings import Settings
from worker.settings.playbook import Playbook, Workflow
from worker.settings.runs import PlanBy


@dataclass(frozen=True, slots=True)
class Need:
    """`key` needs `needs`, which `is_missing` as the settings stand; `instead` says what happens.

    That concerns its `values` only, or if there are none, every value but the default. `field` is
    the front matter's that says the same of one workflow.
    """

    key: str
    needs: str
    is_missing: Callable[[Settings], bool]
    instead: str
    values: tuple[str, ...] = ()
    field: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """A setting that has not the effect that it says: where it stands, why, and what to do."""

    where: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}: {self.advice}"


def _has_no_helper(settings: Settings) -> bool:
    return not settings.models.helper


def _has_no_tiers(settings: Settings) -> bool:
    return not settings.models.tiers


def _needs_driver(*drivers: str) -> Callable[[Settings], bool]:
    return lambda settings: settings.sandbox.driver not in drivers


def _needs_broker(*schemes: str) -> Callable[[Settings], bool]:
    return lambda settings: not settings.broker.startswith(schemes)


_HELPER, _TIERS, _KONFLUX = "models.helper", "models.tiers", "sources.konflux.url"
_DIGEST = "a digest made by rules takes the place of a summary"
_DEFAULT = "every turn has the default model"

NEEDS: Sequence[Need] = (
    Need("loop.gate", _HELPER, _has_no_helper, "rules alone judge", ("judge",), "gate"),
    Need("loop.plan", _HELPER, _has_no_helper, "rules propose the steps", ("model",), "plan"),
    Need(
        "context.strategy",
        _HELPER,
        _has_no_helper,
        _DIGEST,
        ("summary", "recursive"),
        field="context.strategy",
    ),
    Need("context.resume", _HELPER, _has_no_helper, _DIGEST, ("summary",), field="context.resume"),
    Need("models.helper_timeout", _HELPER, _has_no_helper, "no helper is asked"),
    Need("models.tier", _TIERS, _has_no_tiers, _DEFAULT, field="model_tier"),
    Need("models.upgrade", _TIERS, _has_no_tiers, "no model takes over from another"),
    Need("gitlab.tier_min_access", _TIERS, _has_no_tiers, "nobody can choose a tier"),
    Need(
        "models.upgrade",
        "models.tiers.coding",
        lambda settings: bool(settings.models.tiers) and "coding" not in settings.models.tiers,
        "work on code raises nothing",
        values=("code",),
    ),
    *(
        Need(
            f"models.reply.{name}",
            "models.reply.model",
            lambda settings: not settings.models.reply.model,
            "the session's own model answers replies",
        )
        for name in ("reasoning", "max_output", "timeout")
    ),
    Need(
        "limits.project_cost_usd_per_day",
        "limits.cost_usd_per_day above it",
        lambda settings: (
            0 < settings.limits.cost_usd_per_day <= settings.limits.project_cost_usd_per_day
        ),
        "the cap of all projects is reached first",
    ),
    *(
        Need(
            f"sandbox.{name}",
            "sandbox.driver: kubernetes",
            _needs_driver("kubernetes"),
            "it is for pods",
        )
        for name in ("namespace", "pull_secrets")
    ),
    *(
        Need(
            f"sandbox.{name}",
            "sandbox.driver: docker or kubernetes",
            _needs_driver("docker", "kubernetes"),
            "bubblewrap has the machine's own tools",
        )
        for name in ("image", "runtime")
    ),
    Need(
        "sandbox.shared_limits",
        "sandbox.driver: docker",
        _needs_driver("docker"),
        "it is for engines",
    ),
    *(
        Need(
            f"broker_tls.{name}",
            "a broker at rediss:// or amqps://",
            _needs_broker("rediss://", "amqps://"),
            "this broker has no certificate",
        )
        for name in ("verify", "ca_file")
    ),
    Need(
        "broker_tls.ca_file",
        "broker_tls.verify: true",
        lambda settings: not settings.broker_tls.verify,
        "no certificate is checked",
    ),
    Need(
        "s3_addressing",
        "a store at s3://",
        lambda settings: not settings.store.startswith("s3://"),
        "there is no bucket",
    ),
    Need(
        "broker_master",
        "a broker at sentinel://",
        _needs_broker("sentinel://"),
        "no Sentinel is asked",
    ),
    Need(
        "broker_queue",
        "a broker at amqp:// or amqps://",
        _needs_broker("amqp://", "amqps://"),
        "only RabbitMQ has kinds of queues",
    ),
    *(
        Need(
            f"sources.konflux.{name}",
            _KONFLUX,
            lambda settings: not settings.sources.konflux.url,
            "nothing of Konflux is read",
        )
        for name in ("archive_url", "ui_url", "ca_file", "projects")
    ),
    Need(
        _KONFLUX,
        "sources.konflux.projects",
        lambda settings: not settings.sources.konflux.projects,
        "nothing of Konflux is read",
    ),
    *(
        Need(
            f"sources.testing_farm.{name}",
            "sources.testing_farm.repositories",
            lambda settings: not settings.sources.testing_farm.repositories,
            "nothing of Testing Farm is read",
        )
        for name in ("url", "results_url")
    ),
    *(
        Need(key, "pages.url", lambda settings: not settings.pages.url, "no page is served")
        for key in ("pages.days", "pages.sign_in.group")
    ),
    Need(
        "metrics.port",
        "metrics.enabled",
        lambda settings: not settings.metrics.enabled,
        "nothing is served there",
    ),
    Need(
        "known.days",
        "known.answer",
        lambda settings: not settings.known.answer,
        "no explanation is taken up again",
    ),
    *(
        Need(
            f"incidents.{name}",
            "incidents.branches",
            lambda settings: not settings.incidents.branches,
            "no branch is watched",
        )
        for name in ("issue", "rerun")
    ),
)
"""All settings that need another one, of those in the reference (`worker/settings/README.md`)."""


def list_idle_settings(settings: Settings, playbook: Playbook) -> list[Idle]:
    """List what the settings and the workflows say without effect. Raises ConfigError for what a
    workflow says that cannot be done beside these settings."""
    found = [each for need in NEEDS for each in _check_need(need, settings, playbook)]
    return [
        *found,
        *(each for flow in playbook.workflows() for each in _check_flow(flow, settings)),
    ]


def _check_need(need: Need, settings: Settings, playbook: Playbook) -> Iterator[Idle]:
    if not need.is_missing(settings):
        return
    why, advice = f"without {need.needs} {need.instead}", f"set {need.needs}, or leave this out"
    value, default = _read(settings, need.key), _read(Settings(), need.key)
    if value != default and _concerns(need, value):
        yield Idle(f"{need.key} ({_write(value)})", why, advice)
    for flow in playbook.workflows() if need.field else ():
        said = _read(flow, need.field) if _is_set(flow, need.field) else None
        if said is not None and _concerns(need, said):
            yield Idle(f"workflow {flow.name}: {need.field} ({_write(said)})", why, advice)


def _concerns(need: Need, value: Any) -> bool:
    if isinstance(value, tuple):
        return not need.values or bool(set(value) & set(need.values))
    return not need.values or value in need.values


def _check_flow(flow: Workflow, settings: Settings) -> Iterator[Idle]:
    """Check what a workflow says beside itself and the settings."""
    where, most = f"workflow {flow.name}", settings.limits.max_iterations
    if flow.max_iterations and flow.max_iterations > most:
        why = f"limits.max_iterations is {most}, and a workflow can only set less"
        yield Idle(f"{where}: max_iterations ({flow.max_iterations})", why, "raise that limit")
    if flow.lead_steps and (flow.plan or settings.loop.plan) is PlanBy.OFF:
        why = "without a plan there are no steps"
        yield Idle(f"{where}: lead_steps", why, "set its plan, or loop.plan, to facts")
    if flow.find_tool and not flow.small_tools:
        why = "without small_tools all tools are announced"
        yield Idle(f"{where}: find_tool", why, "list its small_tools")
    if _is_set(flow, "context"):
        own = flow.context.model_dump(exclude_unset=True)
        together = {**settings.context.model_dump(), **own}
        if together["fold_to"] >= together["fold_at"]:
            raise ConfigError(
                f"{where}: context: expected fold_to below fold_at, found {together['fold_to']} "
                f"and {together['fold_at']} (one of them is of the setting `context`)"
            )


def _is_set(flow: Workflow, field: str) -> bool:
    part, _, name = field.partition(".")
    is_inside = not name or name in flow.context.model_fields_set
    return part in flow.model_fields_set and is_inside


def _read(part: Any, key: str) -> Any:
    for name in key.split("."):
        part = getattr(part, name)
    return part


def _write(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | dict) else str(value)
