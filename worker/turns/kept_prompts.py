"""Keeps by its hash what a session's model is told: the system prompt and the tools.

A stored session is not believed about them. What it names is sent again only if a session of this
installation began with it, which `prompts/{hash}.json` says, or if its workflow says the same now.
Sessions of versions that kept no hash, and such whose prompt has been removed since, go on with
what their workflow says now; no stored thinking is sent to a prompt that it does not belong to.
"""

import hashlib
import json
import logging
from dataclasses import asdict, replace

from worker.conversation import prompts
from worker.conversation.context import Context, Subject
from worker.conversation.messages import ToolSpec, drop_wire
from worker.errors import StoreError
from worker.sessions.layout import PROMPTS
from worker.sessions.objects import Records
from worker.settings.playbook import Workflow
from worker.turns.parts import Deps
from worker.turns.tiers import list_tier_tools

log = logging.getLogger("sandpiper.job")

MAX_PROMPT = 4 * 1024 * 1024
"""The most bytes of a kept prompt."""

RENEWAL = 86_400.0
"""Seconds after which a prompt that is still used is written again: the sweep removes old ones."""


def write_prompt(
    subject: Subject, workflow: Workflow, deps: Deps
) -> tuple[str, tuple[ToolSpec, ...]]:
    """Return the system prompt and the tools of a session that begins now."""
    toolset = deps.runtime.toolset(subject, workflow)
    tools = (*toolset.specs, *list_tier_tools(workflow, deps))
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
    if _is_kept(context, deps.storage.sessions.records):
        return context
    workflow = deps.runtime.playbook.get(context.workflow)
    system, tools = write_prompt(context.subject, workflow, deps)
    if (context.system, context.tools) == (system, tools):
        return context
    log.warning(
        "session %s: its stored prompt is not known here: it goes on with that of the workflow %s",
        *(context.session_id, workflow.name),
    )
    messages = tuple(map(drop_wire, context.messages))
    return replace(context, system=system, tools=tools, messages=messages, cache=None)


def _is_kept(context: Context, records: Records) -> bool:
    name, content = _encode(context)
    stored = records.read(name, MAX_PROMPT)
    return stored is not None and stored.content == content


def _encode(context: Context) -> tuple[str, bytes]:
    """Return the name and the content of the record of a context's prompt."""
    said = {"system": context.system, "tools": [asdict(tool) for tool in context.tools]}
    content = json.dumps(said, sort_keys=True).encode()
    return f"{PROMPTS}{hashlib.sha256(content).hexdigest()}.json", content
