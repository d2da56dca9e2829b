"""Jobs as the rules see them: real-shaped logs, and where they failed."""

from worker.core.failure.jobs import FailingJob
from worker.core.failure.rules import Scene
from worker.core.failure.rules.runner_log import find_runner_name, has_script_begun

CLEAN = Scene("group/app", "4f0e2d1c" * 5, ("src/app.py",))
CI_TOUCHED = Scene("group/app", "4f0e2d1c" * 5, (".gitlab-ci.yml", "src/app.py"))
YAML_TOUCHED = Scene("group/app", "4f0e2d1c" * 5, ("build/pipeline.yml",))
IMAGE_TOUCHED = Scene("group/app", "4f0e2d1c" * 5, ("Containerfile",))

PREPARING = """\
Running with gitlab-runner 18.5.0 (bda84871)
  on shared-runner-7 xYz12AbC, system ID: s_0011223344
Preparing the "docker+machine" executor
Using Docker executor with image {image} ...
Pulling docker image {image} ...
"""
STEP = """\
Running with gitlab-runner 18.5.0 (bda84871)
Preparing the "docker" executor
Preparing environment
Getting source from Git repository
Executing "step_script" stage of the job script
$ make test
"""
AFTER = """\
Cleaning up project directory and file based variables
ERROR: Job failed: exit code 1
"""


def job(log: str, reason: str = "script_failure", excerpt: str | None = None) -> FailingJob:
    lines = log.rstrip("\n").split("\n")
    numbered = tuple(enumerate(lines, 1))
    shown = "\n".join(f"{number}: {text}" for number, text in numbered)
    return FailingJob(
        17,
        "unit-tests",
        "test",
        reason,
        "https://gitlab.example.com/group/app/-/jobs/17",
        excerpt=shown if excerpt is None else excerpt,
        read=True,
        began=has_script_begun(lines, log.encode().__contains__),
        end=numbered[-80:],
        runner=find_runner_name(lines),
    )


def pull(words: str, image: str = "docker.io/library/python:3.12") -> str:
    start = PREPARING.format(image=image)
    return (
        f'{start}WARNING: Failed to pull image with policy "always": {words} (manager.go:238:1s)\n'
        f'ERROR: Job failed: failed to pull image "{image}" with specified policies [always]: '
        f"{words} (manager.go:238:1s)\n"
    )
