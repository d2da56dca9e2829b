"""Builds the parts of a job."""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from secrets import token_hex

from worker.clock import Clock, SystemClock
from worker.conversation.context import Subject, make_id_salt
from worker.conversation.folds import FoldSettings
from worker.conversation.limits import Limits, LoopRules
from worker.conversation.tiers import TierModel, TierRules
from worker.errors import ForgeError
from worker.gitlab.ports import BotAccount
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.policy import Policy
from worker.gitlab.write.checked import CheckedNoteWriter
from worker.gitlab.write.dry_run import DryRunWriter
from worker.gitlab.write.writer import GitLabWriter
from worker.queue.journal import Journal
from worker.safety.redact import Redactor
from worker.safety.untrusted import visible
from worker.sessions.store import SessionStore
from worker.settings import ACCESS_LEVELS, GitLabSettings, Settings, playbook
from worker.settings.limits import BUDGETS
from worker.settings.playbook import Playbook, Workflow
from worker.settings.runs import ToolList
from worker.telemetry.parts import Telemetry
from worker.turns.day_budget import Budget
from worker.turns.parts import (
    Deps,
    GitLab,
    NoKnownFailures,
    NoteOptions,
    Options,
    Queue,
    Runtime,
    Storage,
    Toolset,
)
from worker.wiring.engines import SandboxTools, build_sandboxes, leave_out_pool
from worker.wiring.model_lists import list_run_models
from worker.wiring.providers import (
    ModelChains,
    build_chains,
    build_helper,
    make_tier_rules,
)
from worker.wiring.receiver import build_pages
from worker.wiring.stores import make_leases, open_watched_store, wait_for_store
from worker.wiring.toolsets import list_tool_names, make_toolset_factory


def open_read_client(settings: Settings) -> ReadClient:
    """Open a client of GitLab with the read token."""
    gitlab = settings.gitlab
    return ReadClient(gitlab.url, gitlab.read_token, download_hosts=gitlab.download_hosts)


def build_deps(
    settings: Settings,
    watched: Telemetry | None = None,
    opened: ExitStack | None = None,
    *,
    dry_run: bool = False,
) -> Deps:
    """Build the parts of a job, wrapped by `watched` if given.

    A `dry_run` posts nothing, needs no write token, and has a session of its own.
    `opened` closes their connections to GitLab and models; without it they stay open until the
    process ends. Raises ConfigError or StoreError.
    """
    opened = opened or ExitStack()
    gitlab, clock, redactor = settings.gitlab, SystemClock(), Redactor(settings.list_secrets())
    redact = partial(_redact, redactor)
    client = _open_client(settings, opened)
    pages = build_pages(settings)
    hosts = pages.link_places | settings.sources.list_link_places()
    writer = DryRunWriter() if dry_run else _open_writer(gitlab, opened)
    toolsets = make_toolset_factory(settings, client, redactor, partial(_find_own_ids, writer))
    runtime = _build_runtime(settings, toolsets, redact, watched, opened)
    store, store_key = wait_for_store(partial(_open_store, settings, watched))
    reader = _build_gitlab_reader(client, gitlab, redact)
    deps = Deps(
        GitLab(
            *(reader, reader, reader, writer),
            CheckedNoteWriter(writer, hosts, redact),
            writer,
            gitlab.url,
            hosts,
        ),
        runtime,
        Storage(
            store,
            known_failures=NoKnownFailures() if dry_run else store.known_failures,
            recent=store.recent_turns,
            budget=_build_budget(settings, store, clock),
        ),
        _build_queue(settings, store, clock),
        replace(
            _build_options(settings),
            page=pages.make_linker(store_key),
            dry_run=dry_run,
            salt=token_hex(8) if dry_run else "",
            id_salt=make_id_salt(store_key),
        ),
    )
    return watched.wrap_deps(deps) if watched else deps


def _open_store(settings: Settings, watched: Telemetry | None) -> tuple[SessionStore, str]:
    """Open the store, and read the key of its installation."""
    store = open_watched_store(settings, watched)
    return store, store.read_installation_key()


def _build_runtime(
    settings: Settings,
    toolsets: Callable[[Subject, Workflow], Toolset],
    redact: Callable[[str], str],
    watched: Telemetry | None,
    opened: ExitStack,
) -> Runtime:
    chains, rules = build_chains(settings, watched, opened), make_tier_rules(settings)
    specs = [each.spec for each in list_run_models(settings)]
    return Runtime(
        model=partial(chains.make_chain, rules.default),
        sandboxes=build_sandboxes(settings),
        toolset=toolsets,
        playbook=_load_playbook(settings, chains, rules),
        limits=_build_limits(settings, rules),
        clock=SystemClock(),
        redact=redact,
        choices={spec: partial(chains.make_alone, TierModel(spec)) for spec in specs},
        describe_tools=SandboxTools().describe_versions,
        helper=build_helper(settings, watched, opened),
        choosable=settings.models.choosable,
        plan=settings.loop.plan,
        gate=settings.loop.gate,
        make_model=chains.make_chain,
        make_reply_model=chains.make_alone,
    )


def _build_queue(settings: Settings, store: SessionStore, clock: Clock) -> Queue:
    leases = make_leases(settings, store)
    owner = f"{socket.gethostname()}:{os.getpid()}"
    return Queue(Journal(store.records, leases, clock), leases, owner)


def _open_client(settings: Settings, opened: ExitStack) -> ReadClient:
    client = open_read_client(settings)
    opened.callback(client.connections.close)
    return client


def _open_writer(gitlab: GitLabSettings, opened: ExitStack) -> GitLabWriter:
    writer = GitLabWriter(gitlab.url, gitlab.write_token)
    opened.callback(writer.connections.close)
    return writer


def _build_limits(settings: Settings, rules: TierRules) -> Limits:
    return Limits(
        **settings.limits.model_dump(include=set(BUDGETS)),
        fold_settings=FoldSettings(**settings.context.model_dump()),
        tier_rules=rules,
        loop_rules=make_loop_rules(settings),
    )


def make_loop_rules(settings: Settings) -> LoopRules:
    """Make the rules of a turn's loop as the operator has set them."""
    limits, loop = settings.limits, settings.loop
    return LoopRules(
        hint_at=limits.max_identical_calls,
        stop_at=limits.max_identical_calls + limits.identical_calls_after_hint,
        empty_retries=loop.empty_retries,
        broken_answers=loop.broken_answers,
        calls_per_answer=loop.calls_per_answer,
        final_grace=limits.final_grace,
    )


def _load_playbook(settings: Settings, chains: ModelChains, rules: TierRules) -> Playbook:
    """Load the workflows in the form that fits the model; with tiers, each turn chooses it."""
    loaded = playbook.load(settings.workflows, list_tool_names(settings))
    if settings.loop.tools is ToolList.COMPACT:
        loaded = loaded.shorten_tool_lists()
    if rules:
        return loaded
    room = chains.make_chain(rules.default).context_tokens
    return loaded.fit(min(settings.limits.context_tokens, room))


def _build_options(settings: Settings) -> Options:
    limits = settings.limits
    return Options(
        note=NoteOptions(**settings.note.model_dump()),
        known_settings=settings.known,
        turns_per_day=limits.turns_per_day,
        project_concurrency=limits.project_concurrency,
        debounce=settings.gitlab.debounce,
    )


def _build_budget(settings: Settings, store: SessionStore, clock: Clock) -> Budget:
    limits = settings.limits
    return Budget(store.records, clock, limits.project_cost_usd_per_day, limits.cost_usd_per_day)


def _redact(redactor: Redactor, text: str) -> str:
    """Remove invisible characters, which could hide a secret, and then secrets."""
    return redactor.redact_text(visible(text))


def build_dry_deps(settings: Settings) -> Deps:
    """Build the parts of a job that posts nothing and has a session of its own."""
    return build_deps(leave_out_pool(settings), dry_run=True)


def _build_gitlab_reader(
    client: ReadClient, gitlab: GitLabSettings, redact: Callable[[str], str]
) -> GitLabReader:
    policy = Policy(
        skip_labels=gitlab.skip_labels,
        skip_drafts=gitlab.skip_drafts,
        skip_paths=gitlab.skip_paths,
        bot_merge_requests=gitlab.bot_merge_requests,
        fork_min_access=ACCESS_LEVELS[gitlab.fork_min_access],
        tier_min_access=ACCESS_LEVELS[gitlab.tier_min_access],
    )
    level = ACCESS_LEVELS[gitlab.reply_min_access]
    return GitLabReader(client, gitlab.url, gitlab.projects, level, policy, redact=redact)


def _find_own_ids(bot: BotAccount) -> frozenset[int]:
    try:
        return frozenset({bot.get_user_id()})
    except ForgeError:
        return frozenset()
