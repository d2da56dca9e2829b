"""`sandpiper demo`: a failed pipeline, its analysis and a reply, on bundled parts.

Real: the receiver, the queue and worker, the sandbox, the tools, the session store, the note.
Simulated: GitLab and, without `--model`, the model.
"""

import queue
import tempfile
from contextlib import ExitStack

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel

from worker import settings, wiring
from worker.cli import DONE, FAILED, PARTIAL, live
from worker.cli.embedded import serve_embedded
from worker.core.conversation.context import Status
from worker.core.events import Event, TurnEnded, Watcher
from worker.demo import story
from worker.demo.anthropic import AnthropicSim
from worker.demo.gitlab import GitLabSim, Receiver
from worker.errors import SandpiperError
from worker.evaluation.cases import load_case
from worker.evaluation.staging import SECRET, Staged, make_staged_settings, stage_case
from worker.settings import ModelSettings, ProviderSettings, Settings

PATIENCE = 900.0
SCRIPTED = "anthropic/claude-sonnet-5-5"
Ended = queue.Queue[TurnEnded]


@click.command()
@click.option("--model", metavar="PROVIDER/MODEL", help="A real model instead of the scripted one.")
@click.pass_obj
def command(config: str | None, model: str | None) -> None:
    """A failing pipeline, the analysis, a reply. Needs Docker, and no credentials."""
    console = Console(highlight=False)
    with ExitStack() as stack:
        gitlab = stack.enter_context(GitLabSim())
        scene = stage_case(gitlab, load_case(story.CASE))
        base = _load_settings(stack, config, model)
        store = tempfile.mkdtemp(prefix="sandpiper-demo-")
        chosen = make_staged_settings(base, gitlab, scene, store)
        wiring.set_up_logging(chosen, quiet=True)
        wiring.require_worker(chosen)
        ended: Ended = queue.Queue()
        url = stack.enter_context(serve_embedded(chosen, _make_watcher(console, ended)))
        gitlab.receiver = Receiver(f"{url}/webhooks/gitlab", SECRET)
        _introduce(console, scene, model)
        statuses = _tell_story(console, gitlab, scene, ended)
    if gitlab.unexpected_requests:
        raise SandpiperError(
            f"GitLab was asked what it does not know: {gitlab.unexpected_requests[0]}"
        )
    raise SystemExit(_get_exit_status(statuses))


def _load_settings(stack: ExitStack, config: str | None, model: str | None) -> Settings:
    """Load the operator's settings, with this model; with a scripted one if it is None."""
    base = settings.load(config)
    if model is None:
        simulator = stack.enter_context(AnthropicSim(story.make_script()))
        provider = ProviderSettings(base_url=simulator.url, key="demo-key-of-no-worth")
        models = ModelSettings(default=SCRIPTED, providers={"anthropic": provider})
    else:
        models = base.models.model_copy(update={"default": model})
    return base.model_copy(update={"models": models})


def _tell_story(console: Console, gitlab: GitLabSim, scene: Staged, ended: Ended) -> set[Status]:
    _print_heading(console, "GitLab sends the webhook: the pipeline failed")
    answer = gitlab.deliver(gitlab.make_pipeline_event(scene.pipeline))
    console.print(f"[cyan]•[/] the receiver answers {answer.status_code} {escape(answer.text)}")
    analysis = _wait_for_turn(ended)
    _print_turn(console, "The note on the merge request", analysis)
    _print_heading(console, f"{scene.author.name} replies in its thread")
    console.print(Panel(story.QUESTION, width=100))
    root = next(note for note in scene.mr.list_notes() if note.author is scene.bot)
    gitlab.comment(scene.mr, scene.author, story.QUESTION, root.discussion_id)
    reply = _wait_for_turn(ended)
    _print_turn(console, "The answer in the same thread", reply)
    _print_heading(console, "What is stored")
    for turn in (analysis, reply):
        for name in ("context.json", "sandbox.tar.gz"):
            console.print(f"  {turn.location}/{name}", soft_wrap=True)
    return {analysis.outcome.status, reply.outcome.status}


def _introduce(console: Console, scene: Staged, model: str | None) -> None:
    mr, log = scene.mr, max(len(job.trace or b"") for job in scene.pipeline.jobs)
    _print_heading(console, "Sandpiper, the whole story")
    console.print(
        f"Merge request {mr.project.path}!{mr.iid}: {escape(mr.title)}\n"
        f"Its pipeline {scene.pipeline.id} failed; the log of the failed job has {log:,} bytes.\n"
        "Real: receiver, queue, worker, sandbox, tools, session store. Simulated: GitLab."
    )
    if model:
        console.print(f"The model is real: {escape(model)}.")
    else:
        console.print(
            "[yellow]The model is a script: its words were written beforehand, its tool calls "
            "really run.[/]"
        )


def _make_watcher(console: Console, ended: Ended) -> Watcher:
    show = live.make_watcher(console)

    def watch(event: Event) -> None:
        show(event)
        if isinstance(event, TurnEnded):
            ended.put(event)

    return watch


def _wait_for_turn(ended: Ended) -> TurnEnded:
    try:
        return ended.get(timeout=PATIENCE)
    except queue.Empty:
        raise SandpiperError("the worker has not finished in time; see the lines above") from None


def _print_turn(console: Console, title: str, ended: TurnEnded) -> None:
    text = ended.body.partition("\n")[2]  # without the marker
    console.print(Panel(Markdown(_strip_html(text)), title=title, width=100))


def _strip_html(note: str) -> str:
    """Remove a note's HTML for the terminal."""
    for tag in ("<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"):
        note = note.replace(tag, "")
    return note


def _print_heading(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{escape(text)}[/]", align="left")


def _get_exit_status(statuses: set[Status]) -> int:
    if Status.FAILED in statuses:
        return FAILED
    return PARTIAL if Status.PARTIAL in statuses else DONE
