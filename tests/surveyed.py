"""A job over the simulated GitLab whose failures are surveyed, and kept."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fakes import ScriptedModel, says
from tests.jobs import EchoToolset, Job
from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline
from worker.conversation.messages import User
from worker.conversation.model import Reply, Request
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.captures import CapturedDocuments
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.jobs import delivery
from worker.safety.redact import Redaction
from worker.sources.table import bind_sources
from worker.turns.parts import Explain
from worker.verdict import known
from worker.verdict.jobs import Survey
from worker.verdict.recalled_tests import Recall

RACE = b"""\
Executing "step_script" stage of the job script
$ pytest -q
E   TimeoutError: the ferry clock did not tick
FAILED tests/test_clock.py::test_tick - TimeoutError: the ferry clock did not tick
ERROR: Job failed: exit code 1
"""
STUCK = b"""\
Running with gitlab-runner 18.5.0
ERROR: Preparation failed: cannot reach the Docker daemon, connection refused
ERROR: Job failed (system failure): pod "runner-x" is disrupted: reason "EvictionByEvictionAPI"
"""


@dataclass
class SurveyedToolset(EchoToolset):
    """The echoing tool, over the simulated GitLab's own logs."""

    reader: Reader | None = None

    def survey_failures(
        self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
    ) -> Survey:
        assert self.reader is not None
        return read_survey(self.reader, explain=explain, recall=recall)


QUOTE = "- job JOB line LINE: ERROR"
"""Stands for the first error of the excerpt that the survey shows."""

_SHOWN = re.compile(
    r"excerpt of job (?P<job>\d+):\n(?: {4}.*\n)*? {4}(?P<line>\d+): (?P<error>E {3}.*)"
)


class QuotingModel(ScriptedModel):
    """Answers from a list, and quotes the log that it is shown."""

    def reply(self, request: Request) -> Reply:
        answer = super().reply(request)
        told = (each.text for each in reversed(request.messages) if isinstance(each, User))
        shown = next(filter(None, map(_SHOWN.search, told)), None)
        quote = f"- job {shown['job']} line {shown['line']}: {shown['error']}" if shown else QUOTE
        return replace(answer, text=answer.text.replace(QUOTE, quote))


class At(Job):
    """A job with a survey, and failures that are kept."""

    def __init__(self, sim: GitLabSim, folder: Path) -> None:
        super().__init__(sim, folder)
        self.model = QuotingModel([])

    def toolset(self, subject: object, workflow: object) -> SurveyedToolset:
        client = ReadClient(self.sim.url, self.scene.read_token, timeout=(2.0, 2.0))
        reader = Reader.open(client, subject, Redaction)  # type: ignore[arg-type]
        made = SurveyedToolset(reader=reader)
        made.captures = CapturedDocuments(reader, bind_sources(reader))  # type: ignore[assignment]
        return made

    def build_deps(self, **changes: object) -> delivery.Deps:  # type: ignore[name-defined]
        wanted = {
            "toolset": self.toolset,
            "known_failures": self.store.known_failures,
            "hosts": frozenset({self.sim.url.removeprefix("http://")}),
        }
        return super().build_deps(**{**wanted, **changes})

    def another(self, title: str) -> tuple[MergeRequest, Pipeline]:
        """Another merge request whose pipeline fails in the same way."""
        mr = self.sim.open_merge_request(
            self.scene.project, self.scene.developer, title=title, branch=title, diffs=()
        )
        return mr, self.flake(mr)

    def flake(self, mr: MergeRequest, trace: bytes = RACE, **fields: str) -> Pipeline:
        pipeline = self.sim.run_pipeline(mr)
        self.sim.add_job(pipeline, "clock", status="failed", trace=trace, **fields)  # type: ignore[arg-type]
        return pipeline

    def of(self, mr: MergeRequest) -> list[str]:
        return [note.body for note in mr.list_notes() if note.author is self.scene.bot]

    def first(self) -> str:
        """What the model was told first, in its newest request."""
        opening = self.model.requests[-1].messages[0]
        assert isinstance(opening, User)
        return opening.text

    def entries(self) -> list[known.KnownFailure]:
        project = self.scene.project.id
        found = [
            (self.store.known_failures.read_entry(project, key), key)
            for key in self.store.known_failures.list_keys(project)
        ]
        read = [known.load_known_failure(data, key) for data, key in found]
        return [each for each in read if each]


CAUSE = "The clock waits for a tick."


def concludes(verdict: str, cause: str = CAUSE) -> Reply:
    """A whole answer, with a quote that holds in every merge request here."""
    return says(
        f"## Verdict\n{verdict}\n\n## Failed\nclock\n\n## Cause\n{cause}\n\n## Evidence\n"
        f"{QUOTE}\n\n"
        "## What to do\nRetry it.\n"
    )
