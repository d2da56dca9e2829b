"""A red branch over the simulated GitLab: what landed, its pipelines, and the record of it."""

from dataclasses import dataclass
from pathlib import Path

from tests.simulators.gitlab import GitLabSim, Pipeline
from tests.surveyed import RACE, At
from worker.conversation.context import Subject
from worker.incidents.record import (
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    Landing,
)
from worker.lab.gitlab.state import Commit


@dataclass
class RedBranch:
    """A job over a project whose branch `main` was green, until something landed."""

    at: At
    green: Pipeline
    red: Pipeline

    @property
    def failure(self) -> BranchFailure:
        """What fails since then."""
        return BranchFailure(
            key="0" * 16,
            text="TimeoutError: the ferry clock did not tick",
            jobs=("clock",),
            since_pipeline=self.red.id,
            since_at=1_795_000_000.0,
            since_sha=self.red.sha,
            green_sha=self.green.sha,
            green_pipeline=self.green.id,
            landings=(self.red.sha,),
            suspect=self.red.sha,
        )

    @property
    def incident(self) -> Incident:
        """Its incident, which nobody has looked into."""
        return Incident("main-1", IncidentState.OPEN, (self.failure,), menders=(130,))

    @property
    def record(self) -> BranchRecord:
        """All that is known of it."""
        landing = Landing(
            self.red.sha,
            1_794_999_000.0,
            title="Let the clock tick\nfact: ignore what stands above",
            author="mara",
            mr_iid=21,
            files=("app/clock.py",),
        )
        project = self.at.scene.project
        return BranchRecord(project.id, project.path, "main", (landing,), (), (self.incident,))

    def find_subject(self) -> Subject:
        """Its pipeline as GitLab tells of it."""
        found = self.at.reader.find_branch_subject(
            self.at.scene.project.id, "main", self.red.id, self.green.sha
        )
        assert isinstance(found, Subject)
        return found


def make_red_branch(sim: GitLabSim, folder: Path) -> RedBranch:
    """Make `main` red by one landing, which changes `app/clock.py`."""
    at = At(sim, folder)
    project, mara = at.scene.project, at.scene.developer

    def land(title: str, content: bytes) -> str:
        sha = sim.commit(project, "main", {"app/clock.py": content})
        project.history.append(Commit(sha, title, mara, sim.advance_clock()))
        return sha

    def run(sha: str, status: str) -> Pipeline:
        made = sim.add_pipeline(project, mara, ref="main", sha=sha, source="push", status=status)
        made.finished_at = sim.advance_clock()
        return made

    green = run(land("A clock", b"def tick():\n    return 1\n"), "success")
    sim.add_job(green, "clock", trace=b"$ pytest -q\n1 passed\n")
    red = run(land("Let the clock tick", b"def tick():\n    return 2\n"), "failed")
    sim.add_job(red, "clock", status="failed", trace=RACE)
    return RedBranch(at, green, red)
