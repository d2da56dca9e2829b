"""`sandpiper demo`: a failed pipeline, its analysis and a reply, on bundled parts.

Real: the receiver, the queue and worker, the sandbox, the tools, the session store, the note.
Simulated: GitLab and, without `--model`, the model.
"""

import queue
import re
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

import click
from rich.console import Console
from rich.markup import escape

from worker import settings, wiring
from worker.cli import DONE, FAILED, PARTIAL, foreground
from worker.cli.layout import print_note
from worker.cli.serve import serve_embedded
from worker.cli.stored_sessions import complete_model
from worker.cli.terminal import StoppedBySignal
from worker.conversation.context import Status
from worker.conversation.events import Event, TriggerLeft, TurnEnded, Watcher
from worker.errors import SandpiperError
from worker.lab import story
from worker.lab.anthropic import AnthropicSim
from worker.lab.cases import load_case
from worker.lab.gitlab import GitLabSim, Receiver
from worker.lab.running import SECRET, Staged, make_staged_settings, stage_case
from worker.settings import ModelSettings, ProviderSettings

PATIENCE = 900.0
SCRIPTED = "anthropic/claude-sonnet-5-5"
Ended = queue.Queue[TurnEnded | TriggerLeft]
_LOST = ("error", "parked")
"""Ends of a trigger that no turn follows any more."""


@click.command()
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="A real model instead of the scripted one.",
    shell_complete=complete_model,
)
@click.option(
    "--open", "keeps_page", is_flag=True, help="Open the session's page; keep it until Ctrl-C."
)
@click.pass_obj
def command(config: str | None, model: str | None, keeps_page: bool) -> None:
    """A failing pipeline, the analysis, a reply. Needs Docker, and no credentials.

    Nothing is left behind, neither files nor containers.
    """
    console = Console(highlight=False)
    with ExitStack() as stack:
        stack.enter_context(_end_on_sigterm())
        gitlab = stack.enter_context(GitLabSim())
        scene = stage_case(gitlab, load_case(story.CASE))
        base = settings.load(config)
        if model is None:
            simulator = stack.enter_context(AnthropicSim(story.make_script()))
            provider = ProviderSettings(base_url=simulator.url, key="demo-key-of-no-worth")
            models = ModelSettings(default=SCRIPTED, providers={"anthropic": provider})
        else:
            models = base.models.model_copy(update={"default": model})
        folder = tempfile.TemporaryDirectory(prefix="sandpiper-demo-", ignore_cleanup_errors=True)
        store = stack.enter_context(folder)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pages = base.pages.model_copy(
            update={"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}
        )
        own = base.model_copy(update={"models": models, "pages": pages})
        chosen = wiring.leave_out_pool(make_staged_settings(own, gitlab, scene, store))
        wiring.set_up_logging(chosen, quiet=True)
        wiring.require_worker(chosen)
        ended: Ended = queue.Queue()
        watch = _make_watcher(console, ended)
        url = stack.enter_context(serve_embedded(chosen, watch, listener, folder.cleanup))
        gitlab.receiver = Receiver(f"{url}/webhooks/gitlab", SECRET)
        _introduce(console, scene, model)
        analysis, reply = _tell_story(console, gitlab, scene, ended)
        if gitlab.unexpected_requests:
            raise SandpiperError(
                f"GitLab was asked what it does not know: {gitlab.unexpected_requests[0]}"
            )
        link = re.search(rf"{re.escape(url)}/sessions/[0-9a-f]+\?sig=[0-9a-f.]+", analysis.body)
        _show_page(console, link[0] if link else "", keeps_page)
    statuses = {analysis.outcome.status, reply.outcome.status}
    if Status.FAILED in statuses:
        raise SystemExit(FAILED)
    raise SystemExit(PARTIAL if Status.PARTIAL in statuses else DONE)


@contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what it has opened is closed."""

    def end(number: int, frame: FrameType | None) -> None:
        raise StoppedBySignal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell_story(
    console: Console, gitlab: GitLabSim, scene: Staged, ended: Ended
) -> tuple[TurnEnded, TurnEnded]:
    """Let the pipeline fail, and reply to the note; return both turns."""
    _print_heading(console, "GitLab sends the webhook: the pipeline failed")
    answer = gitlab.deliver(gitlab.make_pipeline_event(scene.pipeline))
    console.print(f"[cyan]•[/] the receiver answers {answer.status_code} {escape(answer.text)}")
    analysis = _wait_for_turn(ended)
    console.print()
    print_note("The note on the merge request", analysis.body)
    _print_heading(console, f"{scene.author.name} replies in its thread")
    print_note("The reply", story.QUESTION)
    root = next(note for note in scene.mr.list_notes() if note.author is scene.bot)
    gitlab.comment(scene.mr, scene.author, story.QUESTION, root.discussion_id)
    reply = _wait_for_turn(ended)
    console.print()
    print_note("The answer in the same thread", reply.body)
    _print_heading(console, "What was stored, as long as the demo ran")
    for turn in (analysis, reply):
        for name in ("context.json", "sandbox.tar.gz"):
            console.print(f"  {turn.location}/{name}", soft_wrap=True)
    return analysis, reply


def _show_page(console: Console, page: str, keeps_page: bool) -> None:
    """Say how to look at the session's page; with `keeps_page` open it, and wait for Ctrl-C."""
    _print_heading(console, "The session's page")
    if not keeps_page or not page:
        console.print("  It is gone with the demo. To look at it: [bold]sandpiper demo --open[/]")
        return
    console.print(f"  {page}", soft_wrap=True, markup=False)
    console.print("  It is there until you press Ctrl-C.")
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        # A browser in the terminal would cover what is said here.
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(page)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _introduce(console: Console, scene: Staged, model: str | None) -> None:
    mr, log = scene.mr, max(len(job.trace or b"") for job in scene.pipeline.jobs)
    _print_heading(console, "Sandpiper, the whole story")
    console.print(
        f"Merge request {mr.project.path}!{mr.iid}: {escape(mr.title)}\n"
        f"Its pipeline {scene.pipeline.id} failed; the log of the failed job has {log:,} bytes.\n"
        "Real: receiver, queue, worker, sandbox, tools, session store, page. Simulated: GitLab.",
        soft_wrap=True,
    )
    if model:
        console.print(f"The model is real: {escape(model)}.")
    else:
        console.print(
            "[yellow]The model is a script: its words were written beforehand, its tool calls "
            "really run.[/]",
            soft_wrap=True,
        )


def _make_watcher(console: Console, ended: Ended) -> Watcher:
    show = foreground.make_watcher(console)

    def watch(event: Event) -> None:
        show(event)
        if isinstance(event, TurnEnded) or (
            isinstance(event, TriggerLeft) and event.outcome in _LOST
        ):
            ended.put(event)

    return watch


def _wait_for_turn(ended: Ended) -> TurnEnded:
    """Return the turn once it has ended. Raises SandpiperError if it does not."""
    try:
        found = ended.get(timeout=PATIENCE)
    except queue.Empty:
        raise SandpiperError("the worker has not finished in time; see the lines above") from None
    if isinstance(found, TriggerLeft):
        raise SandpiperError(f"the worker has ended without an answer: {found.outcome}")
    return found


def _print_heading(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{escape(text)}[/]", align="left")
