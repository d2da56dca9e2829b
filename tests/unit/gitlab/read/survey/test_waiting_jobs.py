"""A job that no runner took: its tags, and the runners that have them, as far as GitLab tells."""

import pytest

from tests.simulators.gitlab import Access, GitLabSim, Scene
from tests.unit.conftest import subject_of
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.verdict.jobs import RuleMatch


def find_rule(sim: GitLabSim, scene: Scene, *tags: str) -> RuleMatch:
    """Return what is said of a job with these tags that no runner took."""
    pipeline = sim.run_pipeline(scene.mr)
    job = sim.add_job(pipeline, "train", status="failed", failure_reason="no_matching_runner")
    job.started_at, job.trace, job.tags = None, None, tags
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    survey = read_survey(Reader.open(client, subject_of(sim, scene.mr, pipeline), bytes))
    (group,) = survey.groups
    assert group.rule_match is not None
    return group.rule_match


def test_a_reporter_is_told_the_tags_alone(sim: GitLabSim, scene: Scene) -> None:
    scene.project.runners = {"gpu-1": ("gpu",)}
    found = find_rule(sim, scene, "gpu", "linux")
    assert found.cause.endswith("The job's tags are `gpu`, `linux`.")


@pytest.mark.parametrize(
    ("runners", "told"),
    [
        (
            {"gpu-1?": ("gpu", "linux"), "small": ("linux",)},
            "these for the project: gpu-1 (offline).",
        ),
        ({"small": ("linux",)}, "GitLab knows no such runner for the project."),
        ({}, "GitLab knows no such runner for the project."),
        ({f"r{n}": ("gpu", "linux") for n in range(9)}, "r5 (online) and 3 more."),
    ],
)
def test_a_maintainer_is_told_which_runners_have_them(
    sim: GitLabSim, scene: Scene, runners: dict[str, tuple[str, ...]], told: str
) -> None:
    sim.add_member(scene.project, scene.bot, Access.MAINTAINER)
    scene.project.runners = runners
    found = find_rule(sim, scene, "gpu", "linux")
    assert found.cause.endswith(told)


def test_a_jobs_tags_are_no_markup(sim: GitLabSim, scene: Scene) -> None:
    found = find_rule(sim, scene, "a`[x](https://evil.example) @mara")
    assert "`a(https" not in found.cause
    assert "[x]" not in found.cause
    assert found.cause.count("`") == 2
