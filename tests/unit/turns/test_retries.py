"""A failed job that the bot runs again because the record proves that it may pass as it is:
whatever comes of it, and whatever dies in between."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import HandClock, ScriptedModel
from tests.jobs import MemoryDriver, run_trigger
from tests.labelled_notes import answer, build_parts
from tests.labelled_worlds import NOW, build, read_worlds
from tests.parts import change_parts
from tests.simulators.gitlab import Access, GitLabSim
from tests.steps import Killed, Stepped, Steps
from worker.conversation.events import Event, JobRetried
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.jobs.retention import forget_merge_request, list_expired, remove_expired
from worker.settings.runs import NoteSettings, RetrySettings
from worker.turns.parts import Attempt, Deps
from worker.verdict.retries import RetriedJob
from worker.verdict.verdict import Verdict

WORLDS = {
    each.id: each for each in read_worlds(Path(__file__).parents[1] / "gitlab/read/worlds.yaml")
}
LINE = "**Run again once by Sandpiper:** `api` as "


class Flake:
    """A merge request of which a flaky job has failed, and the product."""

    def __init__(self, sim: GitLabSim, folder: Path, world: str = "over-again") -> None:
        self.sim, self.built = sim, build(WORLDS[world], sim)
        sim.add_member(self.built.scene.project, self.built.scene.bot, Access.DEVELOPER)
        self.clock = HandClock(NOW.timestamp())
        self.events: list[Event] = []
        said = answer(self.built, Verdict.UNKNOWN, "It did not pass.")
        self.deps = change_parts(
            build_parts(sim, self.built.scene, folder),
            model=lambda: ScriptedModel([said, said]),
            sandboxes=MemoryDriver(),
            describe_tools=lambda sandbox: "",
            retry_settings=RetrySettings(flaky=1),
            clock=self.clock,
        )

    def run_failed(self, deps: Deps | None = None) -> object:
        mr, failed = self.built.scene.mr, self.built.pipeline
        ended = datetime.fromisoformat(failed.finished_at or failed.created_at)
        trigger = PipelineFailed(
            *(failed.project.id, failed.id, failed.sha, mr.source_branch, mr.iid, mr.project.id),
            finished_at=int(ended.timestamp()),
        )
        return run_trigger(trigger, deps or self.deps, Attempt(self.events.append))

    def run_passed(self) -> object:
        mr, passed = self.built.scene.mr, self.built.pipeline
        trigger = PipelinePassed(
            *(passed.project.id, passed.id, passed.sha, mr.source_branch, mr.iid, mr.project.id)
        )
        return run_trigger(trigger, self.deps, Attempt(self.events.append))

    def end(self, status: str) -> None:
        """The job that came of it ends."""
        (again,) = self.sim.retried
        again.status = status
        if status == "failed":
            again.trace = self.built.job.trace
            again.failure_reason = "script_failure"
        self.sim.end_pipeline(again.pipeline)

    @property
    def note(self) -> str:
        scene = self.built.scene
        (found,) = [each.body for each in scene.mr.list_notes() if each.author is scene.bot]
        return found

    def list_known(self) -> tuple[RetriedJob, ...]:
        found = self.deps.storage.retries.read(self.built.scene.project.id)
        return found.jobs if found else ()

    @property
    def asked(self) -> int:
        """How often GitLab was asked to run a job again."""
        return sum(seen.path.endswith("/retry") for seen in self.sim.requests)

    @property
    def came(self) -> list[str]:
        return [each.came for each in self.events if isinstance(each, JobRetried)]


@pytest.fixture
def flake(tmp_path: Path) -> Iterator[Flake]:
    with GitLabSim() as sim:
        yield Flake(sim, tmp_path)
        assert sim.unexpected_requests == []


def test_it_is_run_again_once_and_the_note_says_so(flake: Flake) -> None:
    for _ in range(3):
        flake.run_failed()
    (again,) = flake.sim.retried
    assert flake.asked == 1
    assert f"{LINE}[job {again.id}]({again.web_url}). Nothing to do until" in flake.note
    assert flake.note.count(LINE) == 1
    (job,) = flake.list_known()
    assert (job.job_id, job.new_job, job.has_passed) == (flake.built.job.id, again.id, None)
    assert flake.came == [""]


def test_it_is_run_again_where_notes_are_threads(flake: Flake) -> None:
    flake.run_failed(change_parts(flake.deps, note=NoteSettings(thread=True)))
    assert flake.asked == 1
    assert LINE in flake.note


def test_it_passes(flake: Flake) -> None:
    flake.run_failed()
    flake.end("success")
    for _ in range(2):
        flake.run_passed()
    assert "**Passed when run again: " in flake.note
    assert LINE in flake.note
    assert flake.list_known()[0].has_passed is True
    assert flake.came == ["", "passed"]
    assert flake.asked == 1


def test_it_fails_again_in_the_same_way(flake: Flake) -> None:
    flake.run_failed()
    flake.end("failed")
    for _ in range(2):
        flake.run_failed()
    assert "**Failed again in the same way in " in flake.note
    assert "“flaky” is not the verdict any more" in flake.note
    assert flake.list_known()[0].has_passed is False
    assert flake.came == ["", "failed"]
    assert flake.asked == 1


def test_what_is_switched_off_is_not_run_again(flake: Flake) -> None:
    off = change_parts(flake.deps, retry_settings=RetrySettings(infrastructure=1))
    flake.run_failed(off)
    assert (flake.asked, flake.list_known()) == (0, ())
    assert "Run again once" not in flake.note


def test_a_dry_run_runs_nothing_again(flake: Flake) -> None:
    flake.run_failed(change_parts(flake.deps, dry_run=True))
    assert (flake.asked, flake.list_known()) == (0, ())


Spoil = Callable[[Flake], object]


def add_attempt(flake: Flake) -> None:
    flake.sim.retry_job(flake.built.job)


def make_manual(flake: Flake) -> None:
    flake.built.job.manual = True


def take_access(flake: Flake) -> None:
    scene = flake.built.scene
    flake.sim.add_member(scene.project, scene.bot, Access.REPORTER)


def make_author_a_stranger(flake: Flake) -> None:
    scene = flake.built.scene
    scene.mr.author = flake.sim.add_user("stranger", "A Stranger")


def supersede(flake: Flake) -> None:
    flake.sim.run_pipeline(flake.built.scene.mr, status="running")


def close(flake: Flake) -> None:
    flake.built.scene.mr.state = "closed"


def archive(flake: Flake) -> None:
    flake.built.scene.project.archived = True


def hide_deployments(flake: Flake) -> None:
    flake.sim.fail_next("GET", "/deployments", 403, 9)


def hide_manual_jobs(flake: Flake) -> None:
    flake.sim.fail_next("POST", "/graphql$", 403, 9)


SPOILS: list[Spoil] = [
    *(add_attempt, make_manual, take_access, make_author_a_stranger, supersede, close, archive),
    *(hide_deployments, hide_manual_jobs),
]


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: str(spoil.__name__))
def test_what_gitlab_says_at_the_last_moment_counts(flake: Flake, spoil: Spoil) -> None:
    """The finding is posted by then; the job must not run, or GitLab does not let it."""

    class Late:
        """The reader, before whose answer something has happened."""

        def __getattr__(self, name: str) -> Any:
            if name == "explain_no_retry":
                spoil(flake)
            return getattr(flake.deps.gitlab.pipelines, name)

    flake.run_failed(change_parts(flake.deps, pipelines=Late()))
    assert flake.sim.retried == []
    assert flake.list_known() == ()
    assert "Flaky: not caused by this change" in flake.note
    assert "Run again once" not in flake.note


def test_a_day_of_the_project_has_so_many(flake: Flake) -> None:
    limits = flake.deps.runtime.limits.model_copy(update={"retries_per_day": 1})
    deps = change_parts(flake.deps, limits=limits)
    project = flake.built.scene.project
    other = RetriedJob("b" * 40, "unit", 9, 3, "5e55", "flaky", flake.clock.now())
    assert deps.storage.retries.claim(project.id, project.path, other, 0.0, 0) == ""
    flake.run_failed(deps)
    assert flake.asked == 0


def test_a_worker_that_dies_at_any_step_leaves_one_run_at_most_and_a_true_note(
    tmp_path: Path,
) -> None:
    deaths = runs = told = 0
    for at in range(200):
        with GitLabSim() as sim:
            flake = Flake(sim, tmp_path / f"{at}")
            steps, deps = Steps(at), flake.deps
            mortal = change_parts(
                deps,
                incident_writer=Stepped(deps.gitlab.incident_writer, steps),
                retries=Stepped(deps.storage.retries, steps),
                notes=Stepped(deps.gitlab.notes, steps),
            )
            try:
                flake.run_failed(mortal)
            except Killed:
                deaths += 1
            else:
                break
            flake.clock.sleep(3600.0)
            for _ in range(2):
                flake.run_failed()
            assert flake.asked <= 1, at
            if not sim.retried:
                assert "Run again once" not in flake.note
                continue
            runs += 1
            if LINE in flake.note:
                told += 1
                assert f"[job {sim.retried[0].id}]" in flake.note
            flake.end("success")
            flake.run_passed()
            assert "**Passed when run again: " in flake.note, at
    assert deaths > 10
    assert runs == deaths - 2  # it was written down, and then not done
    assert told > runs / 2


def test_what_was_run_again_is_forgotten_with_its_merge_request_and_with_time(
    flake: Flake,
) -> None:
    flake.run_failed()
    project, mr = flake.built.scene.project, flake.built.scene.mr
    day = 86_400.0
    flake.clock.sleep(30 * day)
    line = f"1 jobs of project {project.id} that were run again"
    assert f"{line}: would be removed" in list(list_expired(flake.deps, 20))
    assert [each.mr_iid for each in flake.list_known()] == [mr.iid]
    assert f"{line}: removed" in list(remove_expired(flake.deps, 20))
    assert not flake.list_known()
    again = RetriedJob("c", "x", 1, mr.iid, "5e", "flaky", 1.0)
    flake.deps.storage.retries.claim(project.id, project.path, again, 0.0, 0)
    trigger = PipelineFailed(project.id, 1, "a" * 40, "b", mr.iid, project.id)
    forget_merge_request(project.id, mr.iid, flake.deps, trigger)
    assert not flake.list_known()
