"""Jobs as the rules see them: real-shaped logs, and where they failed."""

from worker.verdict.jobs import FailingJob
from worker.verdict.rules.rule import Scene
from worker.verdict.rules.runner_log import find_runner_name, has_script_begun

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


RSF = "runner_system_failure"
FAILED = "ERROR: Job failed (system failure):"
SOURCES = "Running with gitlab-runner 18.5.0\nGetting source from Git repository\n"
EXIT = "ERROR: Job failed: exit code 1\n"
KUBE = "Running with gitlab-runner 18.5.0\nPreparing environment\n"


def in_script(words: str) -> FailingJob:
    """A job whose script says this last."""
    return job(f"{STEP}{words}\n{AFTER}")


def at_pull(words: str, image: str = "quay.io/x/builder:1") -> FailingJob:
    """A job whose image the runner could not get."""
    return job(pull(words, image), RSF)


def pulled_later(words: str) -> FailingJob:
    """A job whose image was pulled in the end, and which then failed at its repository."""
    return job(
        f'{PREPARING.format(image="x:1")}WARNING: Failed to pull image with policy "always": '
        f"{words}\nUsing locally found image version due to pull policy\n"
        f"Getting source from Git repository\nfatal: couldn't find remote ref v2\n{EXIT}"
    )


def pulled_before(words: str) -> FailingJob:
    """A job whose service's image came in the end, and whose own image is not there."""
    start = PREPARING.format(image="quay.io/x/builder:1").rpartition("Pulling")[0]
    _, _, own = pull("manifest unknown", "quay.io/x/builder:1").rpartition("Pulling")
    return job(
        f"{start}Pulling docker image db:1 ...\nWARNING: Failed to pull: {words}\nPulling{own}"
    )


def in_service(words: str) -> FailingJob:
    """A job whose service says this; the job ended for another reason in the same stage."""
    return job(
        f"{PREPARING.format(image='x:1')}*** WARNING: Service db-0 probably didn't start properly."
        f"\n\nService container logs:\n{words}\n\n*********\n\n"
        "ERROR: Job failed: failed to start the helper\n"
    )


def after_script(words: str) -> FailingJob:
    """A job that the runner ended after the script had begun."""
    return job(f"{STEP}compiling\n{FAILED} {words}\n", RSF)


def before_script(words: str, reason: str = RSF) -> FailingJob:
    """A job that the runner ended in the preparation of its pod."""
    return job(f"{KUBE}{words}\n", reason)


def in_sources(words: str) -> FailingJob:
    """A job that ended while its sources were fetched."""
    return job(f"{SOURCES}{words}\n{EXIT}")
