"""Builds the parts of a job."""

import os
import socket
from functools import partial
from secrets import token_hex

from worker import playbook
from worker.core.conversation.limits import Limits
from worker.core.failure.known import Settings as KnownSettings
from worker.core.ports.gitlab import Forge
from worker.core.text.redact import Redactor
from worker.core.text.untrusted import visible
from worker.errors import ForgeError
from worker.forge.gitlab.checked import CheckedForge
from worker.forge.gitlab.dry_run import DryForge
from worker.forge.gitlab.writer import GitLabForge
from worker.models.fallback import FallbackModel
from worker.queue.journal import Journal
from worker.sessions.store import Store
from worker.settings import ACCESS_LEVELS, GitLabSettings, Settings
from worker.sources.api.client import ReadClient
from worker.sources.host.gitlab_reader import GitLabDesk
from worker.sources.host.policy import Policy
from worker.telemetry.parts import Telemetry
from worker.turns.day_budget import Budget
from worker.turns.parts import Deps, NoteOptions
from worker.wiring.clock import SystemClock
from worker.wiring.doors import build_pages
from worker.wiring.engines import SandboxTools, build_sandboxes
from worker.wiring.kits import make_kit_factory
from worker.wiring.providers import build_guarded_models
from worker.wiring.stores import make_leases, open_session_store


def build_deps(
    settings: Settings,
    forge: Forge | None = None,
    salt: str = "",
    watched: Telemetry | None = None,
) -> Deps:
    """Build the parts of a job, wrapped by `watched` if given.

    Raises ConfigError or StoreError.
    """
    gitlab, clock, redactor = settings.gitlab, SystemClock(), Redactor(settings.list_secrets())
    redact = partial(_redact, redactor)
    client = ReadClient(gitlab.url, gitlab.read_token, download_hosts=gitlab.download_hosts)
    models = build_guarded_models(settings, watched)
    pages = build_pages(settings)
    hosts = pages.list_hosts | settings.sources.list_link_places()
    writer = CheckedForge(forge or GitLabForge(gitlab.url, gitlab.write_token), hosts, redact)
    kit = make_kit_factory(settings, client, redactor, partial(_find_own_ids, writer))
    kept = open_session_store(settings)
    kept = Store(watched.wrap_objects(kept.records)) if watched else kept
    held = make_leases(settings, kept)
    driver = build_sandboxes(settings)
    made = Deps(
        desk=_build_desk(client, gitlab),
        forge=writer,
        store=kept,
        sandboxes=driver,
        model=lambda: FallbackModel(models),
        kit=kit,
        playbook=playbook.load(settings.workflows),
        limits=Limits(**settings.limits.get_run_limits()),
        clock=clock,
        redact=redact,
        gitlab_url=gitlab.url,
        hosts=hosts,
        owner=f"{socket.gethostname()}:{os.getpid()}",
        leases=held,
        journal=Journal(kept.records, held, clock),
        salt=salt,
        choices={model.name: partial(FallbackModel, [model]) for model in models},
        turns_per_day=settings.limits.turns_per_day,
        project_concurrency=settings.limits.project_concurrency,
        budget=Budget(
            *(kept.records, clock, settings.limits.project_cost_usd_per_day),
            settings.limits.cost_usd_per_day,
        ),
        debounce=gitlab.debounce,
        note=NoteOptions(**settings.note.model_dump()),
        known=None if salt else kept.known_failures,
        known_settings=KnownSettings(**settings.known.model_dump()),
        recent=kept.recent_turns,
        tools=SandboxTools(driver).describe_versions,
        page=pages.make_linker(),
    )
    return watched.wrap_deps(made) if watched else made


def _redact(redactor: Redactor, text: str) -> str:
    """Remove invisible characters, which could hide a secret, and then secrets."""
    return redactor.text(visible(text))


def build_dry_deps(settings: Settings) -> Deps:
    """Build the parts of a job that posts nothing and has a session of its own."""
    return build_deps(settings, DryForge(lambda body: None), salt=token_hex(8))


def _build_desk(client: ReadClient, gitlab: GitLabSettings) -> GitLabDesk:
    policy = Policy(
        skip_labels=gitlab.skip_labels,
        skip_drafts=gitlab.skip_drafts,
        skip_paths=gitlab.skip_paths,
        bot_merge_requests=gitlab.bot_merge_requests,
        fork_min_access=ACCESS_LEVELS[gitlab.fork_min_access],
    )
    level = ACCESS_LEVELS[gitlab.reply_min_access]
    return GitLabDesk(client, gitlab.url, gitlab.projects, level, policy)


def _find_own_ids(forge: Forge) -> frozenset[int]:
    try:
        return frozenset({forge.me()})
    except ForgeError:
        return frozenset()
