"""The note that the product posts in a labelled world, from the pipeline's webhook on."""

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fakes import HandClock, ScriptedModel, says
from tests.jobs import MemoryDriver, run_trigger
from tests.labelled_worlds import NOW, Built, World, build
from tests.parts import change_parts
from tests.simulators.gitlab import Access, GitLabSim, Scene
from worker import wiring
from worker.conversation.messages import User
from worker.conversation.model import Reply
from worker.conversation.triggers import PipelineFailed
from worker.jobs.missed_tests import record_missed
from worker.settings.loading import load
from worker.settings.runs import IncidentSettings
from worker.turns.parts import Deps
from worker.verdict.verdict import HEADLINES, Verdict

LABELS = {
    Verdict.FLAKY: "flaky",
    Verdict.TARGET: "preexisting",
    Verdict.INFRASTRUCTURE: "infrastructure",
    Verdict.CHANGE: "change",
    Verdict.UNKNOWN: "none",
    Verdict.ABSTAIN: "none",
}
VERDICTS = {
    "flaky": Verdict.FLAKY,
    "preexisting": Verdict.TARGET,
    "infrastructure": Verdict.INFRASTRUCTURE,
    "change": Verdict.CHANGE,
    "none": Verdict.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Posted:
    """A posted note: the label that its headline stands for, its body, what the model was asked at
    last, one text for each request, and the names of the jobs that were run again."""

    headline: str
    body: str
    asked: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()


def unhelpful(world: World) -> Posted:
    """The note where the model cannot tell: its headline is what the product settles by itself."""
    return post_note(world, "none")


def misled(world: World) -> Posted:
    """The note where the model is wrong, and quotes the log for it."""
    return post_note(world, wrong_label(world))


def wrong_label(world: World) -> str:
    """A verdict that is plainly wrong in a world."""
    return str([*world.fields["expect"].get("never", ()), "change"][0])


def claimed(world: World) -> Posted:
    """The note where the model claims what the world says."""
    return post_note(world, world.claim, str(world.fields.get("again", world.claim)))


def post_note(world: World, label: str, again: str = "", **changes: Any) -> Posted:
    """The note where the model's verdict is this one, and `again` when it is asked once more;
    `changes` replace parts of the product. No branch is watched: it is of the record alone."""
    with GitLabSim() as sim, TemporaryDirectory() as folder:
        built = build(world, sim)
        sim.add_member(built.scene.project, built.scene.bot, Access.DEVELOPER)
        cause = world.fields.get("cause", "The tests ran and did not pass.")
        first, second = (answer(built, VERDICTS[each], cause) for each in (label, again or label))
        model = ScriptedModel([first, second, second])
        parts = change_parts(
            build_parts(sim, built.scene, Path(folder)),
            model=lambda: model,
            sandboxes=MemoryDriver(),
            describe_tools=lambda sandbox: "",
            **{"incident_settings": IncidentSettings(branches=())} | changes,
        )
        if world.fields.get("ledger"):  # as the sweep has left it before this pipeline failed
            parts = change_parts(parts, clock=HandClock(NOW.timestamp()))
            swept = [*record_missed(parts, 0.0)]
            assert not any(each.is_gap for each in swept), swept
        run_trigger(_trigger(built), parts)
        assert sim.unexpected_requests == []
        (note,) = [each for each in built.scene.mr.list_notes() if each.author is built.scene.bot]
        asked = (request.messages[-1] for request in model.requests)
        texts = tuple(each.text for each in asked if isinstance(each, User))
        retried = tuple(each.name for each in sim.retried)
        return Posted(read_headline(note.body), note.body, texts, retried)


def build_parts(sim: GitLabSim, scene: Scene, folder: Path) -> Deps:
    """The product as an operator sets it up, with a folder as its store."""
    environment = {
        "GITLAB_URL": sim.url,
        "GITLAB_READ_TOKEN": scene.read_token,
        "GITLAB_WRITE_TOKEN": scene.write_token,
        "GITLAB_WEBHOOK_SECRET": "labelled-worlds-secret-0123456789",
        "ANTHROPIC_API_KEY": "sk-ant-nobodys-key",
        "SANDPIPER_BROKER": "memory://",
        "SANDPIPER_STORE": f"file://{folder}/store",
    }
    return wiring.build_deps(load(None, environment))


def _trigger(built: Built) -> PipelineFailed:
    """What the door makes of the pipeline's webhook."""
    mr, failed = built.scene.mr, built.pipeline
    return PipelineFailed(
        failed.project.id, failed.id, failed.sha, mr.source_branch, mr.iid, mr.project.id
    )


def answer(built: Built, verdict: Verdict, cause: str) -> Reply:
    """A whole answer whose quote is the log's last line before it says how the job ended."""
    lines = (built.job.trace or b"").decode().split("\n")[:-2]
    quote = f"- job {built.job.id} line {len(lines)}: {lines[-1]}\n" if lines else ""
    return says(
        f"## Verdict\n{verdict}\n\n## Failed\n{built.job.name}\n\n"
        f"## Cause\n{cause}\n\n## Evidence\n{quote}\n"
        "## What to do\nLook at the log once more.\n"
    )


def read_headline(body: str) -> str:
    """The label that a note's headline stands for."""
    found = re.search(r"^\*\*(?!Run again once)(.+?)\*\*", body, re.MULTILINE)
    assert found, body
    if found[1].startswith("Already failing on `"):  # an incident of the target branch
        return LABELS[Verdict.TARGET]
    return next(LABELS[verdict] for verdict, words in HEADLINES.items() if words == found[1])
