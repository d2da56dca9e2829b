"""Reads what is stored of a session: its committed turns, and what its model is told.

A session that is damaged in part goes on with what can be read. About the system prompt and the
tools it is not believed: what it names is sent again only if a session of this installation began
with it, which `prompts/{hash}.json` says, or if its workflow says the same now. Sessions of
versions that kept no hash, and such whose prompt has been removed since, go on with what their
workflow says now; no stored thinking is sent to a prompt that it does not belong to.
"""

import hashlib
import json
import logging
from dataclasses import asdict, replace
from itertools import islice

from worker.conversation import context_json, prompts
from worker.conversation.context import Context, SessionKey, Subject, make_session_id
from worker.conversation.messages import ToolSpec, drop_wire
from worker.conversation.model_switch import SET_TIER, make_set_tier_spec
from worker.conversation.tiers import TierRules
from worker.errors import StoreError
from worker.sessions.layout import PROMPTS
from worker.sessions.store import SessionStore
from worker.settings.playbook import Workflow
from worker.turns.parts import Deps
from worker.verdict.aftermath import Aftermath, load_aftermath

log = logging.getLogger("sandpiper.job")

ALL_LOST = "this conversation's earlier turns cannot be read any more: it begins anew"


def load_turn(store: SessionStore, key: SessionKey, turn: int) -> Context:
    """Return a committed turn. Raises StoreError, also if it cannot be decoded."""
    try:
        return context_json.load_context_of(key, store.read_context(key, turn))
    except context_json.HistoryError as error:
        raise StoreError(f"{store.describe_location(key, turn)}: {error}") from error


def read_turn(store: SessionStore, key: SessionKey, turn: int) -> Context | None:
    """Return a committed turn, None if it is damaged or missing. Raises transient StoreErrors."""
    try:
        return load_turn(store, key, turn)
    except StoreError as error:
        if error.transient:
            raise
        return None


def find_next_turn(key: SessionKey, deps: Deps) -> int:
    """Return the number of the turn after a session's last committed one; 0 if there is none."""
    latest = deps.storage.sessions.find_latest_turn(key)
    return 0 if latest is None else latest + 1


def load_newest(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the newest readable turn, as turn `latest`; its `losses` name the unreadable ones.

    Returns None if no turn is readable. Raises transient StoreErrors.
    """
    lost: list[str] = []
    for turn in range(latest, -1, -1):
        try:
            stored = load_turn(deps.storage.sessions, key, turn)
        except StoreError as error:
            if error.transient:
                raise
            log.error("session %s: turn %d is lost: %s", key.session_id, turn, error)
            lost.append(f"turn {turn} of this conversation cannot be read any more")
        else:
            return replace(stored, turn=latest, losses=tuple(lost))
    return None


MOST_FILES = 2
"""The most turns whose files may be restored: the older one if the newest one's cannot be."""

MOST_TURNS = 20
"""The most turns that are searched for files, the newest first."""


def find_files(key: SessionKey, latest: int, deps: Deps) -> tuple[int, ...]:
    """List the newest turns up to `latest` whose files are stored, the newest first.

    A turn that failed, or in which no tool was used, has left none. Raises StoreError.
    """
    turns = range(latest, max(-1, latest - MOST_TURNS), -1)
    stored = (turn for turn in turns if deps.storage.sessions.open_files(key, turn) is not None)
    return tuple(islice(stored, MOST_FILES))


def find_verdict(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the newest turn up to `latest` that has a verdict and is readable, or None.

    A verdict that was asked for in a terminal is not that of a session whose notes are in GitLab:
    nobody has seen it there. Raises transient StoreErrors.
    """
    turns = (read_turn(deps.storage.sessions, key, turn) for turn in range(latest, -1, -1))
    judged = (stored for stored in turns if stored and stored.verdict)
    return next((stored for stored in judged if stored.began_dry or not stored.dry_run), None)


def is_unexplained(key: SessionKey, stored: Context, deps: Deps, look: int = 0) -> bool:
    """Whether nothing was found in a session from the turn `look` up to `stored`, its newest one.
    Raises transient StoreErrors."""
    if not stored.has_failed:
        return False
    found = find_verdict(key, stored.turn, deps)
    return found is None or found.turn < look


def find_aftermath(store: SessionStore, key: SessionKey, turn: int, look: int) -> Aftermath | None:
    """Return what became of the failure that a turn is about, which the turn `look` was the first
    to look at; None if that is not known. Raises StoreError.

    That a pipeline passed, or a new commit came, stands with the session's first turn, and is of no
    failure that came later; that the failure came again in the same way stands with the turn whose
    verdict that has ended.
    """
    after = load_aftermath(store.read_aftermath(key, 0))
    if after and after.became != "failed_again" and look:
        first = read_turn(store, key, look)
        after = after if first and after.became_at >= first.turn_usage.started_at else None
    if turn and (after is None or after.became == "failed_again"):
        return load_aftermath(store.read_aftermath(key, turn))
    return after


def find_newest_look(key: SessionKey, latest: int, deps: Deps) -> Context | None:
    """Return the turn whose text stands in the session's first note: the newest up to `latest` that
    looked at a failure of the commit, or said that it came again. None if it is damaged.

    Raises transient StoreErrors.
    """
    first = read_turn(deps.storage.sessions, key, 0)
    if first is None or first.note is None:
        return first
    turns = (read_turn(deps.storage.sessions, key, turn) for turn in range(latest, 0, -1))
    same = (each for each in turns if each and each.note_text and each.note and not each.dry_run)
    own = first.note.note_id
    return next((each for each in same if each.note and each.note.note_id == own), first)


def read_stop_reason(key: SessionKey, turn: int, deps: Deps) -> str:
    """Return why somebody wants the turn to end; "" also if the store is unavailable."""
    try:
        return deps.storage.sessions.read_stop_reason(key, turn)
    except StoreError as error:
        if not error.transient:
            raise
        log.warning("session %s: %s", key.session_id, error)
        return ""


MAX_PROMPT = 4 * 1024 * 1024
"""The most bytes of a kept prompt."""

RENEWAL = 86_400.0
"""Seconds after which a prompt that is still used is written again: the sweep removes old ones."""


def write_prompt(
    subject: Subject, workflow: Workflow, rules: TierRules, deps: Deps
) -> tuple[str, tuple[ToolSpec, ...]]:
    """Return the system prompt and the tools of a session that begins now."""
    toolset = deps.runtime.toolset(subject, workflow)
    tools = toolset.specs
    if rules and workflow.announces(SET_TIER):
        tools = (*tools, make_set_tier_spec(rules))
    text = prompts.write_system_prompt(toolset.notes, workflow.text, compact=workflow.compact)
    return text, tools


def keep_prompt(context: Context, deps: Deps) -> None:
    """Keep what a session's model is told. If the store fails, later turns of the session are told
    what the workflow says then."""
    name, content = _encode(context)
    records = deps.storage.sessions.records
    try:
        stored = records.read(name, MAX_PROMPT)
        if stored is None:
            records.create(name, content)
            return
        at = records.find_modification_time(name)
        is_old = at is not None and at < deps.runtime.clock.now() - RENEWAL
        if stored.content != content or is_old:
            records.delete(name, stored.version)
            records.create(name, content)
    except StoreError as error:
        log.warning("session %s: its prompt is not kept: %s", context.session_id, error)


def restore_prompt(context: Context, deps: Deps) -> Context:
    """Return a stored context with a prompt that is known to be one of ours. Raises StoreError."""
    name, content = _encode(context)
    kept = deps.storage.sessions.records.read(name, MAX_PROMPT)
    if kept is not None and kept.content == content:
        return context
    workflow = deps.runtime.playbook.get(context.workflow)
    system, tools = write_prompt(context.subject, workflow, deps.runtime.limits.tier_rules, deps)
    if (context.system, context.tools) == (system, tools):
        return context
    log.warning(
        "session %s: its stored prompt is not known here: it goes on with that of the workflow %s",
        context.session_id,
        workflow.name,
    )
    messages = tuple(map(drop_wire, context.messages))
    return replace(context, system=system, tools=tools, messages=messages, cache=None)


def _encode(context: Context) -> tuple[str, bytes]:
    """Return the name and the content of the record of a context's prompt."""
    said = {"system": context.system, "tools": [asdict(tool) for tool in context.tools]}
    content = json.dumps(said, sort_keys=True).encode()
    return f"{PROMPTS}{hashlib.sha256(content).hexdigest()}.json", content


def make_key(
    subject: Subject,
    workflow: Workflow,
    deps: Deps,
    *,
    internal: bool = False,
    gitlab_url: str | None = None,
) -> SessionKey:
    """Return the key of the session of a pipeline's failure.

    Questions and answers in internal notes have a session of their own: a session that also answers
    in public could reveal there what it has read in internal notes. A session that an earlier
    version has begun keeps its id, which has no secret in it. `gitlab_url` is the address that
    GitLab had then, by default the present one. Raises StoreError.
    """
    place = deps.gitlab.url if gitlab_url is None else gitlab_url
    kind = deps.options.salt + ("internal" if internal else "")
    numbers = (subject.project_id, subject.mr_iid, subject.pipeline_id)
    old, new = (
        subject.make_key(
            make_session_id(place, *numbers, workflow.name, salt + kind, subject.branch)
        )
        for salt in ("", deps.options.id_salt)
    )
    return old if old == new or deps.storage.sessions.find_session(old.session_id) == old else new


def is_internal(key: SessionKey, stored: Context, deps: Deps) -> bool:
    """Whether only members could read the session's notes so far."""
    if stored.note and stored.note.internal:
        return True
    return key == _make_key_again(stored, deps, internal=True)


def check_address(key: SessionKey, stored: Context, deps: Deps) -> Context:
    """Return the context with GitLab's present address, unless its key was made with the address
    that it names: notes may link there."""
    made = (_make_key_again(stored, deps, internal=internal) for internal in (False, True))
    if stored.subject.gitlab_url == deps.gitlab.url or key in made:
        return stored
    return replace(stored, subject=replace(stored.subject, gitlab_url=deps.gitlab.url))


def _make_key_again(stored: Context, deps: Deps, *, internal: bool) -> SessionKey:
    """Make the key of a stored session from what it names, with the address of GitLab then."""
    workflow = deps.runtime.playbook.get(stored.workflow)
    began = stored.first_pipeline or stored.subject.pipeline_id
    subject = replace(stored.subject, pipeline_id=began)
    return make_key(
        subject, workflow, deps, internal=internal, gitlab_url=stored.subject.gitlab_url
    )
