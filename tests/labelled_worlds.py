"""Labelled worlds as YAML: what GitLab's record shows of a failed job, and which verdict it proves.

`build` makes one in the simulated GitLab; `labelled_notes` has the product judge it. Its fields:

- `failed`: `job`, `attempts` in the order of time (the last one is judged), `kind` of its pipeline
  (merge_request, branch, merged_result, train, child), `siblings` of a matrix, `fork`.
- `target`: `branch`, `runs`, `denied` (none of its jobs may be read), `picks` (a commit of it that
  carries the same change).
- `others`: runs in other merge requests; `merge_base`; `rebased`; `diff`: changed paths, each with
  the numbers of its added lines where they matter (`{path: app/sum.py, adds: [12]}`), and `text`.
- `model`: what the model claims; `cause`: its cause, where that matters; `again`: what it claims
  when asked once more, if not the same.
- of an attempt or run: `ago`, `status`, `error` (one or several), `reason`, `pipeline`, `commit`,
  `source`, `kind`, `job`, `took`, `queued`, `ran`, `log: erased`, `denied`, `allow_failure`,
  `project: fork`, `lines`, `times` and `every`.
- `junit` of an attempt or run: how many tests its job has reported; failed are those of its `error`
  that begin with `test_`, or those of `reported`; `unread`: GitLab has not read the report yet.
- `expect`: `settled` (flaky, preexisting, infrastructure, change, none), `allowed`, `never`;
  `told`, `untold`: what the note says and does not say; with `model`, `headline` (as `settled`) and
  `asked`, how often the model is asked (1 if not said).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml

from tests.simulators.gitlab import (
    Access,
    Bridge,
    DiffFile,
    GitLabSim,
    MergeRequest,
    Pipeline,
    Project,
    Scene,
    make_failing_merge_request,
)
from worker.lab.gitlab.state import Commit, Job

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

RIGHT, OPEN, WRONG, NEVER = "right", "open", "wrong", "never"


@dataclass(frozen=True, slots=True)
class World:
    """One labelled world; `fields` are as in the file."""

    id: str
    title: str
    fields: Mapping[str, Any]

    def grade(self, settled: str) -> str:
        """How good it is to settle this world so: RIGHT, OPEN, WRONG or NEVER."""
        expect = self.fields["expect"]
        if settled == expect["settled"] or settled in expect.get("allowed", ()):
            return RIGHT
        if settled == "none":
            return OPEN
        return NEVER if settled in expect.get("never", ()) else WRONG

    @property
    def claim(self) -> str:
        """What the model claims in it, "" if the world is not about that."""
        return str(self.fields.get("model", ""))


def read_worlds(path: Path) -> list[World]:
    """The worlds of a file."""
    found = yaml.safe_load(path.read_text("utf-8"))["worlds"]
    return [World(each["id"], each["title"], each) for each in found]


@dataclass(frozen=True, slots=True)
class Built:
    """A world in a simulated GitLab: its merge request, and the pipeline and job to judge."""

    scene: Scene
    pipeline: Pipeline
    job: Job


def build(world: World, sim: GitLabSim) -> Built:
    """The world, in a fresh simulator."""
    return _Builder(sim, world.fields).build()


# ------------------------------------------------------------------------------------ the building

_UNITS = {"m": 1, "h": 60, "d": 1440}
_KINDS = {"merge_request": "head", "merged_result": "merge", "train": "train", "branch": "branch"}


def _minutes(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smhd])", text)
    assert found, text
    return int(found[1]) / 60 if found[2] == "s" else int(found[1]) * _UNITS[found[2]]


def _moment(minutes: float) -> str:
    """So long before now, in one of three zones: an instant is the same in all."""
    zone = timezone(timedelta(hours=int(minutes) % 3))
    return (NOW - timedelta(minutes=minutes)).astimezone(zone).isoformat(timespec="milliseconds")


def _sha(name: str) -> str:
    return hashlib.sha1(f"commit {name}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a job and the pipeline that it belongs to; `ago` and `made` are in minutes."""

    fields: Mapping[str, Any]
    where: str
    pipeline: str
    ago: float
    made: float
    at: int


class _Builder:
    """Builds one world in a simulated GitLab."""

    def __init__(self, sim: GitLabSim, fields: Mapping[str, Any]) -> None:
        self._sim = sim
        self._fields = fields
        self._failed: Mapping[str, Any] = fields["failed"]
        self._branch = fields["target"]["branch"]
        self._pipelines: dict[str, Pipeline] = {}
        self._children: dict[str, Pipeline] = {}
        self._jobs: dict[tuple[str, int], Job] = {}

    def build(self) -> Built:
        scene = make_failing_merge_request(self._sim, log=b"", diffs=self._diffs())
        self._scene, self._mr = scene, scene.mr
        self._project: Project = scene.project
        self._forget(scene)
        self._prepare_merge_request()
        runs = sorted(self._runs(), key=lambda run: -run.made)
        for run in runs:
            if run.pipeline not in self._pipelines:
                self._pipelines[run.pipeline] = self._add_pipeline(run)
        for run in sorted(runs, key=lambda run: -run.ago):
            self._add_job(run)
        own = self._pipelines[self._judged().pipeline]
        self._mr.head_pipeline = own
        self._add_siblings(own)
        self._deny(runs)
        return Built(scene, own, self._jobs[self._judged().where, self._judged().at])

    def _forget(self, scene: Scene) -> None:
        self._sim.pipelines.clear()
        self._sim.jobs.clear()
        scene.mr.pipelines.clear()
        scene.mr.head_pipeline = None

    def _diffs(self) -> list[DiffFile]:
        return [_diff(each) for each in self._fields.get("diff", ["lib/greeting.py"])]

    def _prepare_merge_request(self) -> None:
        mr = self._mr
        mr.target_branch, mr.sha = self._branch, _sha("H")
        mr.base_sha = _sha(self._fields.get("merge_base", "A"))
        mr.commits[:] = [
            Commit(_sha("G"), "Earlier work", mr.author, _moment(9000)),
            Commit(_sha("H"), "Greet by name", mr.author, _moment(300)),
        ]
        self._fork = self._project
        self._tell_history()
        if self._failed.get("fork"):
            self._fork = self._sim.add_project("mara/service", parent=self._project)
            self._sim.add_member(self._fork, self._scene.bot, Access.REPORTER)
            mr.source_project = self._fork

    def _tell_history(self) -> None:
        """The target's commits by their letters; the one that is picked has our title."""
        picked = self._fields["target"].get("picks")
        self._project.history += [
            Commit(
                _sha(name), "Greet by name" if name == picked else f"Work on {name}",
                self._mr.author, _moment(8000 - 10 * at),
            )
            for at, name in enumerate("ABCDEF")
        ]  # fmt: skip

    def _runs(self) -> Iterator[_Run]:
        for at, each in enumerate(self._failed["attempts"]):
            yield self._run(each, "attempt", f"attempt {each.get('pipeline', 0)}", at)
        for at, each in enumerate(self._fields["target"]["runs"]):
            name = f"target {each['pipeline']}" if "pipeline" in each else f"target run {at}"
            first = self._run(each, "target", name, at)
            times, every = each.get("times", 1), _minutes(each.get("every", "0m"))
            for number in range(times):
                back = first.ago - number * every
                made = back + first.made - first.ago
                yield _Run(each, "target", f"{name} {number}", back, made, at)
        for at, each in enumerate(self._fields.get("others", ())):
            yield self._run(each, "other", f"other {at}", at)

    def _run(self, fields: Mapping[str, Any], where: str, pipeline: str, at: int) -> _Run:
        ago = _minutes(fields["ago"])
        return _Run(fields, where, pipeline, ago, ago + _minutes(fields.get("queued", "0m")), at)

    def _judged(self) -> _Run:
        return [run for run in self._runs() if run.where == "attempt"][-1]

    # --------------------------------------------------------------------------------- pipelines

    def _add_pipeline(self, run: _Run) -> Pipeline:
        made = {
            "attempt": self._add_own_pipeline,
            "target": self._add_target_pipeline,
            "other": self._add_other_pipeline,
        }[run.where](run)
        made.created_at = _moment(run.made)
        if self._kind(run) == "child":
            self._children[run.pipeline] = self._add_child(made)
        return made

    def _place(self, run: _Run) -> Project:
        return self._fork if run.fields.get("project") == "fork" else self._project

    def _kind(self, run: _Run) -> str:
        return str(run.fields.get("kind", self._failed.get("kind", "merge_request")))

    def _add_own_pipeline(self, run: _Run) -> Pipeline:
        kind = self._kind(run)
        commit = run.fields.get("commit", "H")
        where = self._place(run)
        made = self._sim.run_pipeline(self._mr, kind=_KINDS.get(kind, "head"), project=where)
        onto = run.fields.get("onto")
        made.sha = _sha(f"{commit} into {onto}") if onto else _sha(commit)
        made.status = run.fields.get("pipeline_status", "failed")
        return made

    def _add_target_pipeline(self, run: _Run) -> Pipeline:
        fields = run.fields
        job_status = fields["status"]
        usual = (
            "failed" if job_status == "failed" and not fields.get("allow_failure") else "success"
        )
        branch = fields.get("branch", self._branch)
        return self._add_branch_pipeline(
            self._place(run), branch, _sha(fields["commit"]), fields.get("source", "push"),
            fields.get("pipeline_status", usual),
        )  # fmt: skip

    def _add_branch_pipeline(
        self, project: Project, ref: str, sha: str, source: str, status: str
    ) -> Pipeline:
        made = Pipeline(
            id=self._sim.make_id("pipeline"), iid=len(self._sim.pipelines) + 1,
            project=project, ref=ref, sha=sha, source=source, status=status,
            user=self._mr.author, created_at=_moment(0),
        )  # fmt: skip
        self._sim.pipelines[made.id] = made
        return made

    def _add_other_pipeline(self, run: _Run) -> Pipeline:
        other = self._other_merge_request(run.fields["mr"], run.fields.get("base", "A"))
        made = self._sim.run_pipeline(other, kind="head", project=self._project)
        made.sha = other.sha
        return made

    def _other_merge_request(self, number: int, base: str) -> MergeRequest:
        developer = self._scene.developer
        made = self._sim.open_merge_request(
            self._project, developer, title=f"Other {number}", branch=f"other-{number}",
            target_branch=self._branch,
        )  # fmt: skip
        made.sha = _sha(f"other {number}")
        own = Commit(made.sha, f"Other {number}", developer, _moment(200))
        made.commits[:] = [*(self._mr.commits if base == "H" else ()), own]
        made.base_sha = self._mr.base_sha if base == "H" else _sha(base)
        return made

    def _add_child(self, parent: Pipeline) -> Pipeline:
        made = self._add_branch_pipeline(
            parent.project, parent.ref, parent.sha, "parent_pipeline", parent.status
        )
        made.created_at = parent.created_at
        parent.bridges.append(Bridge(len(parent.bridges) + 1, "backend", parent.status, made))
        return made

    # -------------------------------------------------------------------------------------- jobs

    def _add_job(self, run: _Run) -> None:
        fields, status = run.fields, run.fields["status"]
        if status == "absent":
            return
        pipeline = self._children.get(run.pipeline, self._pipelines[run.pipeline])
        job = self._sim.add_job(
            pipeline, fields.get("job", self._failed["job"]), status=status,
            trace=self._log(run), failure_reason=fields.get("reason"),
            allow_failure=fields.get("allow_failure", False),
        )  # fmt: skip
        job.created_at = _moment(run.made)
        job.started_at = _moment(run.ago)
        job.duration = _minutes(fields.get("took", "90s")) * 60
        job.erased = fields.get("log") == "erased"
        job.tests, job.is_summarised = _report(fields), not fields.get("unread")
        if fields.get("ran") is False or status in ("skipped", "manual", "created"):
            job.started_at, job.trace = None, None
        self._jobs[run.where, run.at] = job

    def _log(self, run: _Run) -> bytes:
        judged = run.where == "attempt" and run.fields is self._failed["attempts"][-1]
        return _trace(run.fields, self._fields.get("log_lines", ()) if judged else ())

    def _add_siblings(self, own: Pipeline) -> None:
        pipeline = self._children.get(self._judged().pipeline, own)
        for each in self._failed.get("siblings", ()):
            self._sim.add_job(
                pipeline, each["job"], status=each["status"], trace=_trace(each, ()),
                failure_reason=each.get("reason"), allow_failure=each.get("allow_failure", False),
            )  # fmt: skip

    def _deny(self, runs: Iterable[_Run]) -> None:
        """The jobs of these pipelines may not be read, and so not their logs either."""
        everything = self._fields["target"].get("denied")
        for run in runs:
            if run.fields.get("denied") or (everything and run.where == "target"):
                denied = self._pipelines[run.pipeline]
                self._sim.fail_next("GET", f"/pipelines/{denied.id}/jobs", 403, times=100)


def _diff(changed: str | Mapping[str, Any]) -> DiffFile:
    if isinstance(changed, str):
        return DiffFile(changed, "@@ -1 +1 @@\n-a\n+b\n")
    text = changed.get("text", "new line")
    hunks = (f"@@ -{line - 1},0 +{line} @@\n+{text} {line}\n" for line in changed["adds"])
    return DiffFile(changed["path"], "".join(hunks))


def _trace(fields: Mapping[str, Any], more: Sequence[str]) -> bytes:
    errors = fields.get("error", [])
    lines = ["$ run-tests", *fields.get("lines", ()), *more]
    for error in [errors] if isinstance(errors, str) else errors:
        lines += _told(error)
    return ("\n".join([*lines, *_ending(fields)]) + "\n").encode()


def _report(fields: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The tests of a job as GitLab shows them: those that failed, others that passed."""
    if not (count := fields.get("junit", 0)):
        return None
    errors = fields.get("reported", fields.get("error", []))
    cases = []
    for error in [errors] if isinstance(errors, str) else errors:
        test, found, message = error.partition(": ")
        if found and test.startswith("test_"):
            cases.append(
                {"name": test, "classname": f"tests.{test}", "status": "failed",
                 "system_output": message}
            )  # fmt: skip
    passed = [
        {"name": f"test_other_{number}", "classname": "tests.other", "status": "success"}
        for number in range(count - len(cases))
    ]
    flaked = [case | {"status": "success"} for case in cases if fields.get("twice")]
    return [*cases, *flaked, *passed]


def _told(error: str) -> list[str]:
    """The lines of a log that show an error, as pytest or another tool writes them."""
    test, found, message = error.partition(": ")
    if not found or not test.startswith("test_"):
        return [error]
    return [f"E   {message}", f"FAILED tests/{test}.py::{test} - {message}"]


def _ending(fields: Mapping[str, Any]) -> list[str]:
    if fields["status"] == "success":
        return ["Job succeeded"]
    if fields["status"] != "failed":
        return []
    return {
        "runner_system_failure": ["ERROR: Job failed (system failure)"],
        "job_execution_timeout": ["ERROR: Job failed: execution took longer than 1h0m0s seconds"],
    }.get(fields.get("reason", ""), ["ERROR: Job failed: exit code 1"])
