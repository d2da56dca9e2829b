"""The parts of a job."""

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
from worker.wiring.doors import published
from worker.wiring.engines import SandboxTools, sandboxes
from worker.wiring.kits import kits
from worker.wiring.providers import guarded
from worker.wiring.stores import leases, store


def deps(
    settings: Settings,
    forge: Forge | None = None,
    salt: str = "",
    watched: Telemetry | None = None,
) -> Deps:
    """The parts of a job, `watched` if they are to be. Raises ConfigError or StoreError."""
    gitlab, clock, redactor = settings.gitlab, SystemClock(), Redactor(settings.secrets())
    redact = partial(_redacted, redactor)
    client = ReadClient(gitlab.url, gitlab.read_token, download_hosts=gitlab.download_hosts)
    models = guarded(settings, watched)
    pages = published(settings)
    hosts = pages.hosts | settings.sources.link_places()
    writer = CheckedForge(forge or GitLabForge(gitlab.url, gitlab.write_token), hosts, redact)
    kit = kits(settings, client, redactor, partial(_own, writer))
    kept = store(settings)
    kept = Store(watched.objects(kept.records)) if watched else kept
    held = leases(settings, kept)
    driver = sandboxes(settings)
    made = Deps(
        desk=_desk(client, gitlab),
        forge=writer,
        store=kept,
        sandboxes=driver,
        model=lambda: FallbackModel(models),
        kit=kit,
        playbook=playbook.load(settings.workflows),
        limits=Limits(**settings.limits.of_a_run()),
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
        known=None if salt else kept.known,
        known_settings=KnownSettings(**settings.known.model_dump()),
        recent=kept.recent,
        tools=SandboxTools(driver).tell,
        page=pages.linker(),
    )
    return watched.around(made) if watched else made


def _redacted(redactor: Redactor, text: str) -> str:
    """`text` without unseen characters, behind which a secret hides, and without secrets."""
    return redactor.text(visible(text))


def dry(settings: Settings) -> Deps:
    """The parts of a job that posts nothing; its session is its own."""
    return deps(settings, DryForge(lambda body: None), salt=token_hex(8))


def _desk(client: ReadClient, gitlab: GitLabSettings) -> GitLabDesk:
    policy = Policy(
        skip_labels=gitlab.skip_labels,
        skip_drafts=gitlab.skip_drafts,
        skip_paths=gitlab.skip_paths,
        bot_merge_requests=gitlab.bot_merge_requests,
        fork_min_access=ACCESS_LEVELS[gitlab.fork_min_access],
    )
    level = ACCESS_LEVELS[gitlab.reply_min_access]
    return GitLabDesk(client, gitlab.url, gitlab.projects, level, policy)


def _own(forge: Forge) -> frozenset[int]:
    try:
        return frozenset({forge.me()})
    except ForgeError:
        return frozenset()
