"""The whole product in a story of a red branch: webhooks in, notes and incidents out.

`python -m tests.product_stories FILE… [--orders N] [--only ID] [--late]` plays the stories of files
in the format of `tests.simulators.branches` and marks what came of them; `--late`: everything is
delivered at the end, where less is right as well.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tests.fakes import HandClock, ScriptedModel, says
from tests.jobs import MemoryDriver, run_trigger
from tests.parts import change_parts
from tests.simulators.branches import StoryPlayer, read_time
from tests.simulators.gitlab import GitLabSim
from tests.story_marks import StoryMarks, list_numbers
from worker import wiring
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import Trigger
from worker.errors import Busy, DebounceNotOver
from worker.incidents.record import BranchRecord, Incident
from worker.incidents.sightings import is_silent
from worker.jobs.missed_branches import begin_missed_branches
from worker.jobs.repair import begin_missed_pipelines
from worker.settings.loading import load
from worker.turns.parts import Attempt, Deps
from worker.webhook.events import get_kind, parse_event
from worker.webhook.routing import Ignored, route_event

Fields = Mapping[str, Any]
_LOST, _MOST_SWEPT = 0.4, 1000
_ANSWER = (
    "## Verdict\nunclear\n\n## Failed\n{job}\n\n## Cause\nThe log does not say more.\n\n"
    "## Evidence\n\n## What to do\nLook at the log.\n"
)


@dataclass
class CountingModel(ScriptedModel):
    """Answers every question with the same finding, and counts the sessions that ask."""

    sessions: set[str] = field(default_factory=set)

    def reply(self, request: Request) -> Reply:
        self.sessions.add(str(request.messages[0])[:4000])
        return says(_ANSWER.format(job="unit"))


@dataclass(slots=True)
class Seen:
    """What people see at one time."""

    incidents: list[tuple[str, str, Incident]]
    """Project, branch and incident, its keys and commits by the story's names."""
    notes: dict[int, str]
    """The newest body of the bot's note on each merge request."""
    runs_again: set[tuple[int, str]]
    paid: int


class ProductStory:
    """One story, played to the product."""

    def __init__(self, story: Fields, sim: GitLabSim, folder: Path) -> None:
        self.story, self.sim = story, sim
        self.player = StoryPlayer(sim, story)
        self.clock = HandClock(self.player.start.timestamp())
        self.model = CountingModel([])
        settings = story.get("settings") or {}
        environment = {
            "GITLAB_URL": sim.url,
            "GITLAB_READ_TOKEN": self.player.read_token,
            "GITLAB_WRITE_TOKEN": self.player.write_token,
            "GITLAB_WEBHOOK_SECRET": "labelled-worlds-secret-0123456789",
            "ANTHROPIC_API_KEY": "sk-ant-nobodys-key",
            "SANDPIPER_BROKER": "memory://",
            "SANDPIPER_STORE": f"file://{folder}/store",
            "SANDPIPER_GITLAB__DEBOUNCE": "0",
            "SANDPIPER_INCIDENTS__RERUN": str(settings.get("rerun", 0)),
        }
        config = folder / "sandpiper.yaml"
        config.write_text(
            yaml.safe_dump({"incidents": {"branches": settings.get("branches", ["default"])}})
        )
        self.settings = load(str(config), environment)
        self.deps: Deps = change_parts(
            wiring.build_deps(self.settings),
            model=lambda: self.model,
            sandboxes=MemoryDriver(),
            describe_tools=lambda sandbox: "",
            clock=self.clock,
        )
        self.waiting: list[Trigger] = []

    def play(self, until: str) -> list[Trigger]:
        """Let GitLab go on until then; return the triggers that the door makes of its webhooks."""
        triggers: list[Trigger] = []
        for each in self.player.play(until):
            for named, body in each.hooks:
                headers = {name.lower(): value for name, value in named.items()}
                event = parse_event(headers, body)
                made = route_event(event, get_kind(headers), (), self.settings.incidents.branches)
                triggers += () if isinstance(made, Ignored) else made
        self.clock.time = max(self.clock.time, self.player.start.timestamp() + read_time(until))
        return triggers

    def deliver(self, triggers: Sequence[Trigger]) -> None:
        """Deal with triggers one after the other, each again until it is not kept waiting."""
        for trigger in triggers:
            self._deliver_one(trigger)
        assert self.sim.unexpected_requests == [], self.sim.unexpected_requests[:3]

    def _deliver_one(self, trigger: Trigger) -> None:
        for _ in range(5):
            begun: list[Trigger] = []
            try:
                run_trigger(trigger, self.deps, Attempt(begin=begun.append))
                break
            except (Busy, DebounceNotOver):
                continue
            finally:
                self.deliver(begun)

    def sweep(self) -> None:
        """Begin what was not delivered, as `sandpiper sweep` does."""
        begin = self._deliver_one
        for _ in begin_missed_branches(self.deps, 0.0, _MOST_SWEPT, begin):
            pass
        for _ in begin_missed_pipelines(self.deps, 0.0, _MOST_SWEPT, begin):
            pass

    def look(self) -> Seen:
        """See what people see now."""
        player = self.player
        names = {sha: name for name, sha in player.commits.items()}
        letters = [
            (letter, text)
            for letter, spelt in self.story["errors"].items()
            for text in (spelt if isinstance(spelt, list) else [spelt])
        ]
        found: list[tuple[str, str, Incident]] = []
        for name, project in player.projects.items():
            for record in self.deps.storage.incidents.list_branches(project.id):
                found += [
                    (name, record.branch, _rename(each, record, names, letters))
                    for each in record.incidents
                ]
        notes = {
            iid: max(own, key=lambda note: note.id).body
            for iid, mr in player.requests.items()
            if (own := [note for note in mr.list_notes() if note.author is player.bot])
        }
        again = {(job.pipeline.mr.iid, job.name) for job in self.sim.retried if job.pipeline.mr}
        return Seen(found, notes, again, len(self.model.sessions))


def _rename(
    incident: Incident,
    record: BranchRecord,
    names: Mapping[str, str],
    letters: Sequence[tuple[str, str]],
) -> Incident:
    def name_key(text: str) -> str:
        plain = re.sub(r"\W+", "", text)
        same = [letter for letter, each in letters if re.sub(r"\W+", "", each)[-40:] in plain]
        return same[0] if same else f"?{text[:60]}"

    failures = tuple(
        replace(
            each,
            key=each.key if is_silent(each.key) else name_key(each.text),
            suspect=names.get(each.suspect, each.suspect),
            ended_by=names.get(each.ended_by, each.ended_by),
            landings=tuple(names.get(sha, sha) for sha in each.landings),
        )
        for each in incident.failures
    )
    return replace(incident, failures=failures)


def main(arguments: Sequence[str]) -> int:
    """Play the stories of files; print each point of those that are not right."""
    orders = int(arguments[arguments.index("--orders") + 1]) if "--orders" in arguments else 1
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    counts: Counter[str] = Counter()
    for path in (Path(each) for each in arguments if each.endswith((".yaml", ".yml"))):
        for story in yaml.safe_load(path.read_text("utf-8"))["stories"]:
            if only and story["id"] not in only.split(","):
                continue
            is_late = "--late" in arguments
            for order in range(orders):
                for line in play_story(_join_points(story) if is_late else story, order):
                    counts[line.split(" ", 2)[1]] += 1
                    if " right" not in line:
                        print(line)
    print(dict(counts))
    return int(counts["wrong"] > 0)


def _join_points(story: Fields) -> Fields:
    """Return the story with its last point alone, of which all is expected that holds by then; not
    what is paid, or run again, which is chosen among those that are known."""
    incidents: dict[str, dict[str, Any]] = {}
    notes: dict[int, Fields] = {}
    for point in story["expect"]:
        for label, fields in (point.get("incidents") or {}).items():
            incidents.setdefault(label, {}).update(fields)
        for who, fields in (point.get("notes") or {}).items():
            notes |= dict.fromkeys(list_numbers(who), fields)
    at = story["expect"][-1]["at"]
    return {**story, "expect": [{"at": at, "incidents": incidents, "notes": notes}]}


def play_story(story: Fields, order: int = 0) -> list[str]:
    """Play a story; return a line for each mark. Order 0 delivers each event as it happens; others
    shuffle those between two points and double some, and the even ones lose some, after which the
    sweep runs."""
    chance = random.Random(order)
    with GitLabSim() as sim, TemporaryDirectory() as folder:
        product = ProductStory(story, sim, Path(folder))
        marks = StoryMarks(story)
        times = sorted({read_time(event["at"]) for event in story["events"]})
        begun = float("-inf")
        for point in story["expect"]:
            end = read_time(point["at"])
            is_lossy = order > 0 and order % 2 == 0
            if order == 0:
                for at in [each for each in times if begun < each <= end]:
                    product.deliver(product.play(f"{int(at)}s"))
                    marks.look_at_never(product.look(), str(at))
                product.deliver(product.play(f"{int(end)}s"))
            else:
                triggers = product.play(f"{int(end)}s")
                some = chance.sample(triggers, len(triggers))
                some += chance.sample(triggers, len(triggers) // 3)
                lost = {each for each in triggers if is_lossy and chance.random() < _LOST}
                product.deliver([each for each in some if each not in lost])
            if is_lossy or any(map(_is_untold, _list_between(story, begun, end))):
                product.sweep()
            seen = product.look()
            marks.look(point, seen)
            if "--notes" in sys.argv:
                print(f"== {story['id']} {point['at']}")
                for iid, body in seen.notes.items():
                    print(f"-- !{iid}\n{body}")
            begun = end
        return marks.lines


def _list_between(story: Fields, begun: float, end: float) -> list[Fields]:
    return [each for each in story["events"] if begun < read_time(each["at"]) <= end]


def _is_untold(event: Fields) -> bool:
    """Whether GitLab tells nobody: that a branch or a project is gone, or a merge request closed,
    is found by the sweep."""
    return not {"delete_branch", "archive", "close"}.isdisjoint(event)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
