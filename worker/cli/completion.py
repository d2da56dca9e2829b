"""What a shell completes: ids of stored sessions, names of models.

Nothing is offered, and nothing said, where there are no settings, or the store does not answer.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import click
from click.shell_completion import CompletionItem

from worker import wiring
from worker.cli.stored_sessions import find_sessions
from worker.errors import SandpiperError
from worker.safety.untrusted import one_line
from worker.settings import Settings

_MOST = 50
"""The most ids that are offered, the newest first."""

_LONGEST = 60


def complete_session(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest sessions, each with its merge request."""
    found: list[CompletionItem] = []
    with suppress(SandpiperError, OSError):
        found += islice(_find_sessions(_load_settings(context), incomplete), _MOST)
    return found


def complete_model(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the models that the settings name."""
    names: set[str] = set()
    with suppress(SandpiperError, OSError):
        names |= {each.spec for each in wiring.list_chosen_models(_load_settings(context))}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _load_settings(context: click.Context) -> Settings:
    # While a shell completes, no command runs that would hand on what --config says.
    return wiring.load_settings(context.find_root().params.get("config"), quiet=True)


def _find_sessions(settings: Settings, incomplete: str) -> Iterator[CompletionItem]:
    store = wiring.open_session_store(settings)
    for key, row in find_sessions(store, store.recent_turns):
        if key.session_id.startswith(incomplete):
            about = f"{row.project}!{row.mr_iid} {row.title}" if row else ""
            yield CompletionItem(key.session_id, help=one_line(about, _LONGEST) or None)
