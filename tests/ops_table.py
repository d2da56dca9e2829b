"""Tables of operational failures as YAML, and what the product makes of each, from the webhook on.

An item of a table has the fields `id`, `pair`, `executor` (`none`: no log), `gitlab` (what GitLab
says of the job: `failure_reason`, `tags`; `message` where no job was made), `change` (`files`,
`says`), `trace` (the runner's log as plain text) and `expect`: `certain` (the verdict that may be
given without a model, or `none`), `also_fine`, `never_certain`, `must_not_say` and `should_say`
(patterns), `error` (the decisive line), `noise`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tests.fakes import ScriptedModel, says
from tests.jobs import MemoryDriver, run_trigger
from tests.labelled_notes import build_parts, read_headline
from tests.parts import change_parts
from tests.simulators.gitlab import (
    DiffFile,
    GitLabSim,
    Pipeline,
    Scene,
    make_failing_merge_request,
)
from worker.conversation.context import RULE, Context
from worker.conversation.context_json import load_context
from worker.conversation.messages import User
from worker.conversation.model import Reply
from worker.conversation.triggers import PipelineFailed
from worker.turns.parts import Deps
from worker.verdict.jobs import Group

PROJECT = "acme/shop"
"""The project of the traces."""

NONE = "none"


@dataclass(frozen=True, slots=True)
class Item:
    """One labelled failure; `fields` are as in the file."""

    id: str
    fields: Mapping[str, Any]

    @property
    def expect(self) -> Mapping[str, Any]:
        """What is right, fine and wrong."""
        found: Mapping[str, Any] = self.fields["expect"]
        return found


@dataclass(frozen=True, slots=True)
class Played:
    """What came of an item: the verdict that was settled without a model, or "none"; whether a rule
    answered; the note; what the survey showed; and what the rules say, however certain they are."""

    settled: str
    ruled: bool
    note: str
    survey: str
    groups: tuple[Group, ...]
    leads: str


def read_items(path: Path) -> list[Item]:
    """Read the items of a table."""
    return [Item(each["id"], each) for each in yaml.safe_load(path.read_text("utf-8"))]


def play(item: Item) -> Played:
    """Let the product make a note of an item, with a model that cannot tell."""
    with GitLabSim() as sim, TemporaryDirectory() as folder:
        scene, pipeline = _build(item, sim)
        model = ScriptedModel([_answer(item, scene)] * 4)
        parts = change_parts(
            build_parts(sim, scene, Path(folder)),
            model=lambda: model,
            sandboxes=MemoryDriver(),
            describe_tools=lambda sandbox: "",
        )
        mr = scene.mr
        run_trigger(
            PipelineFailed(
                scene.project.id, pipeline.id, pipeline.sha, mr.source_branch, mr.iid,
                scene.project.id,
            ),
            parts,
        )  # fmt: skip
        (note,) = [each for each in mr.list_notes() if each.author is scene.bot]
        context = _load_context(parts)
        asked = model.requests[0].messages[0] if model.requests else None
        groups = context.survey.groups if context.survey else ()
        rules = [group.rule_match for group in groups if group.rule_match]
        return Played(
            settled=read_headline(note.body),
            ruled=context.found_by == RULE,
            note=note.body,
            survey=asked.text if isinstance(asked, User) else "",
            groups=groups,
            leads="\n".join(each.cause for each in rules),
        )


def _answer(item: Item, scene: Scene) -> Reply:
    """What a model says that cannot tell: a whole answer that quotes the log's first line."""
    first = item.fields["trace"].partition("\n")[0]
    quote = f"- job {scene.job.id} line 1: {first}\n" if first else ""
    return says(
        "## Verdict\nunknown\n\n## Failed\nunit-tests\n\n## Cause\nNot known.\n\n"
        f"## Evidence\n{quote}\n## What to do\nRead the log.\n"
    )


def _load_context(parts: Deps) -> Context:
    sessions = parts.storage.sessions
    (key,) = sessions.list_sessions()
    turn = sessions.find_latest_turn(key)
    assert turn is not None
    return load_context(sessions.read_context(key, turn))


# ------------------------------------------------------------------------------------ the building


def _build(item: Item, sim: GitLabSim) -> tuple[Scene, Pipeline]:
    """Make the item in a simulated GitLab; returns the pipeline that failed."""
    gitlab, change = item.fields["gitlab"], item.fields["change"]
    diffs = [_make_file(path, change["says"]) for path in change["files"]]
    scene = make_failing_merge_request(sim, log=b"", diffs=diffs, path=PROJECT)
    pipeline, job = scene.pipeline, scene.job
    if gitlab.get("pipeline_failure_reason"):
        pipeline = sim.run_pipeline(scene.mr, yaml_errors=gitlab["message"])
        return scene, pipeline
    job.failure_reason, job.tags = gitlab["failure_reason"], tuple(gitlab["tags"])
    if item.fields["executor"] == NONE:
        job.started_at, job.trace = None, None
    else:
        began = datetime.fromisoformat(job.created_at)
        job.trace = write_trace(item.fields["trace"], began).encode()
    return scene, pipeline


def _make_file(path: str, says: str) -> DiffFile:
    old, _, new = path.rpartition(" => ")
    added = "\n".join(f"+{line}" for line in says.split("\n"))
    return DiffFile(
        new, f"@@ -1,0 +1,{added.count('+')} @@\n{added}\n", old, renamed_file=bool(old)
    )


_SECTIONS = {
    "Resolving secrets": "resolve_secrets",
    "Preparing the ": "prepare_executor",
    "Preparing environment": "prepare_script",
    "Getting source from Git repository": "get_sources",
    "Restoring cache": "restore_cache",
    "Downloading artifacts": "download_artifacts",
    'Executing "step_script" stage': "step_script",
    "Running after_script": "after_script",
    "Saving cache": "archive_cache_on_failure",
    "Uploading artifacts": "upload_artifacts_on_failure",
    "Cleaning up project directory": "cleanup_file_variables",
}
"""How a line begins that opens a section of a runner's log, and the section's name."""

_GREEN, _RED, _CYAN, _OFF = "\x1b[32;1m", "\x1b[31;1m", "\x1b[36;1m", "\x1b[0;m"


def write_trace(text: str, began: datetime) -> str:
    """Write a runner's log with times, markers of sections and colours, as GitLab keeps it."""
    return "".join(
        f"{began + timedelta(milliseconds=37 * at):%Y-%m-%dT%H:%M:%S.%f}Z {line}\n"
        for at, line in enumerate(_mark_lines(text.splitlines(), int(began.timestamp())))
    )


def _mark_lines(lines: Sequence[str], at: int) -> Iterator[str]:
    section = ""
    for line in lines:
        opened = next((name for start, name in _SECTIONS.items() if line.startswith(start)), "")
        ends = line.startswith("ERROR: Job failed") and section
        if section and ((opened and opened != section) or ends):
            yield f"00O section_end:{at}:{section}\r\x1b[0K"
            section = ""
        if opened and opened != section:
            section = opened
            yield f"00O section_start:{at}:{section}\r\x1b[0K\x1b[0K{_CYAN}{line}{_OFF}{_OFF}"
        else:
            yield _colour_line(line, section)


def _colour_line(line: str, section: str) -> str:
    stream = "01" if section == "step_script" else "00"
    if line.startswith("ERROR: Job failed"):
        return f"00E {_RED}{line}{_OFF}"
    if line.startswith("$ "):
        return f"{stream}O {_GREEN}{line}{_OFF}"
    return f"{stream}O {line}"


# ------------------------------------------------------------------------------------ the grading

RIGHT = "right"
ASKED = "asked"
MISSED = "missed"
WRONG = "wrong"
SAID = "said"
NEVER = "never"
GRADES = (RIGHT, ASKED, MISSED, WRONG, SAID, NEVER)
"""Right by a rule, or asked where that is right; asked where a rule could know; asked, but without
the decisive line; certain and wrong; says what it must not; certain of what misleads."""


def grade(item: Item, played: Played) -> tuple[str, str]:
    """Return the item's grade and why."""
    expect = item.expect
    fine = {expect["certain"], *expect["also_fine"]}
    if played.settled in expect["never_certain"]:
        return NEVER, f"settled {played.settled}"
    if said := list_said(item, played):
        return SAID, said[0]
    if played.settled not in {NONE, *fine}:
        return WRONG, f"settled {played.settled}, fine {sorted(fine)}"
    if lacks := _find_lack(item, played):
        return MISSED, lacks
    return (RIGHT if played.settled in fine else ASKED), ""


def list_said(item: Item, played: Played) -> list[str]:
    """List what the note, or a lead to the model, says in its own words though it must not."""
    words = f"{take_own_words(played.note)}\n{played.leads}"
    found = (re.search(each, words) for each in item.expect["must_not_say"])
    return [f"says {each[0]!r}" for each in found if each]


def take_own_words(note: str) -> str:
    """Return a note without the lines of logs that it quotes."""
    without = re.sub(r"(?s)```.*?```|<pre>.*?</pre>|<code>.*?</code>", "", note)
    return re.sub(r"(?m)^\s*>.*$", "", without)


def _find_lack(item: Item, played: Played) -> str:
    """Return what the note, or what the model is given, does not show; "" if it shows all."""
    error = item.expect["error"].strip()
    shown = f"{played.note}\n{played.survey}"
    said = item.fields["trace"] or item.fields["gitlab"].get("pipeline_failure_reason")
    if said and not played.ruled and not shows_whole(played.survey, error):
        return "the decisive line is not shown whole"
    if not played.ruled and item.fields["trace"] and not is_headline(played.groups, error):
        return f"the error is {[each.text for each in played.groups]}"
    if played.ruled and item.fields["trace"] and not _quotes(played.groups, error):
        return "it quotes another line"
    lacks = [each for each in item.expect["should_say"] if not re.search(each, shown)]
    return f"does not say {lacks}" if lacks else ""


def _quotes(groups: Sequence[Group], error: str) -> bool:
    """Whether a rule quotes the line, or a part of it."""
    texts = (each.rule_match.text.strip() for each in groups if each.rule_match)
    return any(text and text in error for text in texts)


def shows_whole(text: str, error: str) -> bool:
    """Whether a text shows a line, however it is wrapped or indented."""
    return " ".join(error.split()) in " ".join(text.split())


def is_headline(groups: Sequence[Group], error: str) -> bool:
    """Whether the line is the error of a group, which may be cut or joined with its heading."""
    wanted = " ".join(error.split())
    texts = (" ".join(each.text.split()).rstrip("…") for each in groups)
    return any(text and (text in wanted or wanted in text) for text in texts)
