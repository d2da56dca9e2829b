"""Plays the story of a branch into the simulated GitLab, as far as a moment.

A story is a mapping with `errors` and `events`, in the order of time:

- `land: B` (of `branch`, `mr`, `by`, `files` or how many, `squash`, `reverts`, `picks`; `train`:
  the branch becomes the commit that the train has run on), `open: 21` (`base`, `to`, `by`, `files`,
  `reverts`, `stacked_on`, `fork`, `source_branch`), `rebase: 21` (`onto`), `update: 21`,
  `close: 21`, `delete_branch`, `archive`;
- `pipeline: 102`, which ends then and was made `took` before: of a `commit` (`source`) or an `mr`
  (`kind`: merge_request, merged_result, train; `onto`, `cars`), with its `jobs`; `retry: 102`.
  A job that is `silent` fails without a word: the branch's key of it is `silent:` and its name.

With `settings: {forward: true}` merge requests land, and trains run, by moving the branch forward.
Merge requests and pipelines have the story's own numbers; `commits` maps its names to GitLab's ids.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.simulators import branch_commits
from tests.simulators.branch_commits import CONFIG, Change
from tests.simulators.branch_jobs import (
    Plan,
    Scripts,
    end_jobs,
    end_pipeline,
    make_config,
    start_jobs,
)
from tests.simulators.gitlab import Access, GitLabSim, MergeRequest, Pipeline, Project, User
from tests.simulators.gitlab.trains import make_forward, make_merge_result
from worker.lab.gitlab.views import Event
from worker.lab.gitlab.world import show_time

Fields = Mapping[str, Any]

_KINDS = (
    "land",
    "open",
    "rebase",
    "update",
    "close",
    "pipeline",
    "retry",
    "delete_branch",
    "archive",
)
_TIME = re.compile(r"(-?)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_REFS = {"merge_request": "head", "merged_result": "merge", "train": "train"}


def read_time(text: str | float) -> float:
    """Return a time of a story (`2h10m`) in seconds."""
    if not isinstance(text, str):
        return float(text)
    parts = _TIME.fullmatch(text)
    assert parts, f"{text!r} is no time"
    units = zip(parts.groups()[1:], (86400, 3600, 60, 1), strict=True)
    total = sum(int(number or 0) * unit for number, unit in units)
    return float(-total if parts[1] else total)


@dataclass(frozen=True, slots=True)
class Played:
    """What has happened: the event, and the webhooks that GitLab sends for it (headers and body).

    A pipeline happens twice: when it is made, and when it ends.
    """

    at: float
    event: Fields
    hooks: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class _Step:
    at: float
    index: int
    number: int
    kind: str


class StoryPlayer:
    """One story in one simulated GitLab, which is running.

    `bot` is a Developer of all projects but forks, with `read_token` and `write_token`; on `main`,
    which is protected, it cannot run jobs again.
    """

    def __init__(self, sim: GitLabSim, story: Fields, start: datetime | None = None) -> None:
        self.sim = sim
        self.start = start or sim.start
        self.events: Sequence[Fields] = story["events"]
        self.people: dict[str, User] = {}
        self.projects: dict[str, Project] = {}
        self.commits: dict[str, str] = {}
        self.requests: dict[int, MergeRequest] = {}
        self.pipelines: dict[int, Pipeline] = {}
        self._is_forward = bool((story.get("settings") or {}).get("forward"))
        self.bot = sim.add_user("sandpiper-bot", "Sandpiper", bot=True)
        self.read_token = sim.add_token("read", self.bot, "read_api")
        self.write_token = sim.add_token("write", self.bot, "api")
        self._scripts = Scripts(story.get("errors", {}), self.events)
        self._begun = {**self._list_times("land"), **self._list_times("open")}
        self._steps = deque(sorted(self._list_steps()))
        sim.set_clock(self.start - timedelta(days=1))
        for name in self._list_projects():
            self._add_project(name)

    def play(self, until: str | float) -> list[Played]:
        """Let happen what has not happened yet, up to and including `until`."""
        done: list[Played] = []
        moment = read_time(until)
        with self.sim.lock:
            while self._steps and self._steps[0].at <= moment:
                step = self._steps.popleft()
                event = self.events[step.index]
                self.sim.set_clock(self.start + timedelta(seconds=step.at))
                ran: tuple[Pipeline, ...] = getattr(self, f"_{step.kind}")(event, step)
                hooks = tuple(self.sim.make_pipeline_event(each) for each in ran)
                done.append(Played(step.at, event, hooks))
            self.sim.set_clock(self.start + timedelta(seconds=moment))
        return done

    @property
    def end(self) -> float:
        """When the last event happens."""
        return max(read_time(event["at"]) for event in self.events)

    # ------------------------------------------------------------------------------- before it

    def _list_times(self, kind: str) -> dict[Any, float]:
        """When each commit lands and each merge request is opened, by their names."""
        found: dict[Any, float] = {}
        for event in self.events:
            if kind in event and "pipeline" not in event:
                for number, at in _list_moments(event):
                    name = event[kind] + number if number else event[kind]
                    found[name] = at
        return found

    def _list_steps(self) -> Iterator[_Step]:
        for index, event in enumerate(self.events):
            kind = next(each for each in _KINDS if each in event and _is_kind(event, each))
            for number, at in _list_moments(event):
                if kind != "pipeline":
                    yield _Step(at, index, number, kind)
                    continue
                about = event["mr"] + number if "mr" in event else event["commit"]
                needed = [about, event.get("onto", about), *event.get("cars", ())]
                made = at - read_time(event.get("took", "5m"))
                made = max(made, *(self._begun[each] for each in needed))
                yield _Step(made, index, number, "make")
                yield _Step(at, index, number, "pipeline")

    def _list_projects(self) -> list[str]:
        named = [event.get("project", "one") for event in self.events]
        named += [
            event[key] for event in self.events for key in ("archive", "fork") if key in event
        ]
        return sorted(dict.fromkeys(["one", *named]), key=lambda name: name.startswith("fork"))

    def _add_project(self, name: str) -> None:
        mine = [
            each for each in self.events if name in (each.get("project", "one"), each.get("fork"))
        ]
        paths = {path: f"# {path}\n".encode() for each in mine for path in _list_files(each)}
        parent = self.projects["one"] if name.startswith("fork") else None
        config = {CONFIG: make_config(self._scripts.list_jobs(self._segment(name, "main", "")))}
        folder = "dev9" if parent else "team"
        made = self.sim.add_project(f"{folder}/{name}", {**paths, **config}, parent=parent)
        self.projects[name] = made
        made.protected_branches["main"] = Access.MAINTAINER
        if parent is None:
            self.sim.add_member(made, self.bot, Access.DEVELOPER)
        if any(each.get("kind") == "train" for each in mine):
            self.sim.trains.open(made)

    def _segment(self, project: str, branch: str, label: str) -> list[Fields]:
        """List the pipelines that run by the configuration that a commit brings ("" for the first):
        those of this and later commits, and of merge requests on them, up to the next such one."""
        lands = [
            event for event in self.events
            if "land" in event and (event.get("project", "one"), event.get("branch", "main"))
            == (project, branch)
        ]  # fmt: skip
        labels, inside = set[str](), not label
        for event in lands:
            if event["land"] == label:
                inside = True
            elif inside and CONFIG in _list_files(event) and labels:
                break
            if inside:
                labels.add(event["land"])
        on = {
            event["open"] + number
            for event in self.events
            if "open" in event and event.get("base") in labels
            for number, _ in _list_moments(event)
        }
        ran = [
            event
            for event in self.events
            if "pipeline" in event
            and (labels & {event.get("commit"), event.get("onto")} or event.get("mr") in on)
        ]
        numbers = {event["pipeline"] for event in ran}
        return ran + [event for event in self.events if event.get("retry") in numbers]

    # ------------------------------------------------------------------------------ what happens

    def _change(self, event: Fields, step: _Step, name: str, config: list[Fields]) -> Change:
        at = show_time(self.start + timedelta(seconds=step.at))
        files = _list_files(event)
        texts = {}
        if CONFIG in files:
            text = make_config(self._scripts.list_jobs(config))
            texts[CONFIG] = text + f"# changed by {name}\n".encode()
        reverts, picks = (self.commits.get(event.get(key, ""), "") for key in ("reverts", "picks"))
        if not files and not reverts and not picks:
            files = [f"notes/{name}.md"]
        return Change(
            name, self.find_person(event.get("by", "dev1")), at,
            files, reverts, picks, texts,
        )  # fmt: skip

    def find_person(self, name: str) -> User:
        """Return who is called so in the story: a Developer, unless it is a stranger."""
        if name not in self.people:
            self.people[name] = self.sim.add_user(name)
        for project in self.projects.values():
            if not name.startswith("stranger") and self.people[name].id not in project.members:
                self.sim.add_member(project, self.people[name], Access.DEVELOPER)
        return self.people[name]

    def _land(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        label, branch = event["land"], event.get("branch", "main")
        project = self.projects[event.get("project", "one")]
        config = self._segment(event.get("project", "one"), branch, label)
        change = self._change(event, step, label, config)
        iid = event.get("mr")
        if iid is None:
            self.commits[label] = branch_commits.land_push(project, branch, change)
            return ()
        if iid not in self.requests:
            tip = project.refs.get(branch) or project.refs[project.default_branch]
            self.requests[iid] = branch_commits.open_request(
                self.sim, project, iid, change, base=tip, target=branch
            )
        car = self.sim.trains.find(self.requests[iid]) if event.get("train") else None
        self.commits[label] = (
            branch_commits.land_car(self.requests[iid], car.pipeline.sha, change.at)
            if car and car.pipeline
            else branch_commits.land_request(
                self.requests[iid],
                change,
                squash=event.get("squash", False),
                forward=self._is_forward,
            )
        )
        self.sim.trains.merge(self.requests[iid])
        return ()

    def _open(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        iid = event["open"] + step.number
        own = [each for each in self.events if "pipeline" in each and each.get("mr") == iid]
        stack = event.get("stacked_on")
        fork = event.get("fork")
        self.requests[iid] = branch_commits.open_request(
            self.sim,
            self.projects[event.get("project", "one")],
            iid,
            self._change(event, step, f"!{iid}", own),
            base=self.commits[event["base"]],
            target=event.get("to", "main"),
            branch=event.get("source_branch", ""),
            source=self.projects[fork] if fork else None,
            stacked_on=self.requests[stack] if stack else None,
        )
        return ()

    def _rebase(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        at = show_time(self.start + timedelta(seconds=step.at))
        branch_commits.rebase_request(
            self.requests[event["rebase"]], self.commits[event["onto"]], at
        )
        return ()

    def _update(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        mr = self.requests[event["update"]]
        fields = {"files": [each.new_path for each in mr.diffs], "by": mr.author.username, **event}
        name = f"!{mr.iid} at {step.at:.0f}"
        branch_commits.update_request(mr, self._change(fields, step, name, []))
        return ()

    def _close(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        mr = self.requests[event["close"]]
        mr.state = "closed"
        mr.closed_at = mr.updated_at = show_time(self.start + timedelta(seconds=step.at))
        return ()

    def _delete_branch(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        self.projects[event.get("project", "one")].refs.pop(event["delete_branch"], None)
        return ()

    def _archive(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        self.projects[event["archive"]].archived = True
        return ()

    # --------------------------------------------------------------------------------- pipelines

    def _make(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        """Make a pipeline, which runs from now on."""
        number = event["pipeline"] + step.number
        project = self.projects[event.get("project", "one")]
        at = show_time(self.start + timedelta(seconds=step.at))
        mr = self.requests[event["mr"] + step.number] if "mr" in event else None
        if mr is None:
            sha, ref = self.commits[event["commit"]], event.get("branch", "main")
            source = event.get("source", "push")
            user = project.records[sha].author
        else:
            source, user = "merge_request_event", mr.author
            ref, sha = self._find_place(event, mr, project, at)
        pipeline = Pipeline(number, number, project, ref, sha, source, "running", user, at, mr=mr)
        pipeline.updated_at = at
        self.sim.pipelines[number] = self.pipelines[number] = pipeline
        if mr is not None:
            mr.pipelines.insert(0, pipeline)
            mr.head_pipeline = pipeline
            if event.get("kind") == "train":
                self.sim.trains.add(mr, mr.author, pipeline)
        start_jobs(self.sim, pipeline, self._plans(event))
        return (pipeline,)

    def _find_place(
        self, event: Fields, mr: MergeRequest, project: Project, at: str
    ) -> tuple[str, str]:
        """Return the ref and the commit of a merge request's pipeline."""
        if project is not mr.project:
            return mr.source_branch, mr.sha
        kind = event.get("kind", "merge_request")
        ref = f"refs/merge-requests/{mr.iid}/{_REFS[kind]}"
        if kind == "merge_request":
            return ref, mr.sha
        cars = [self.requests[iid] for iid in event.get("cars", ())]
        make = make_forward if self._is_forward and kind == "train" else make_merge_result
        return ref, make(mr, self.commits[event["onto"]], at, cars)

    def _pipeline(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        """Let a pipeline end."""
        pipeline = self.pipelines[event["pipeline"] + step.number]
        moment = self.start + timedelta(seconds=step.at)
        end_jobs(self.sim, pipeline, self._plans(event), moment)
        end_pipeline(pipeline, moment)
        car = self.sim.trains.find(pipeline.mr) if pipeline.mr else None
        if pipeline.mr and car and car.pipeline is pipeline and pipeline.status == "failed":
            # The story itself says what becomes of the pipelines behind it.
            self.sim.trains.drop(pipeline.mr, is_cancelling=False)
        return (pipeline,)

    def _retry(self, event: Fields, step: _Step) -> tuple[Pipeline, ...]:
        """Let jobs run again, all in this moment."""
        pipeline = self.pipelines[event["retry"]]
        moment = self.start + timedelta(seconds=step.at)
        end_jobs(self.sim, pipeline, self._plans(event), moment)
        end_pipeline(pipeline, moment)
        return (pipeline,)

    def _plans(self, event: Fields) -> list[Plan]:
        return self._scripts.list_plans(event)


def _is_kind(event: Fields, kind: str) -> bool:
    """Whether the key names what happens, and is no field of a pipeline."""
    return kind in ("pipeline", "retry") or not {"pipeline", "retry"} & set(event)


def _list_files(event: Fields) -> Sequence[str]:
    """List the files that an event changes: `files` names them, or says how many there are."""
    files = event.get("files", ())
    return [f"made/{at}.txt" for at in range(files)] if isinstance(files, int) else files


def _list_moments(event: Fields) -> list[tuple[int, float]]:
    """List when an event happens, with its number: more than once if it has `times`."""
    every = read_time(event.get("every", 0))
    first = read_time(event["at"])
    return [(number, first + number * every) for number in range(event.get("times", 1))]
