"""What the runner itself writes in a job's log: its name, where the script begins, how it ended.
Pure.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from worker.logs.line_kinds import JOB_FAILED
from worker.verdict.jobs import FailingJob

_RUNNER_NAME = re.compile(r"^  on (.{1,200}?) [\w-]{8,12}(?:, system ID: \w{1,80})?$")


def find_runner_name(lines: Sequence[str]) -> str:
    """Return the name that the runner gives itself in the first lines of a cleaned log, or ""."""
    found = (_RUNNER_NAME.match(line[:400]) for line in lines[:5])
    return next((each[1] for each in found if each), "")


_STEP = (b'Executing "step_script" stage', b'Executing "build_script" stage', b"\n$ ")
_RUNNER = "Running with gitlab-runner"


def has_script_begun(lines: Sequence[str], holds: Callable[[bytes], bool]) -> bool:
    """Whether a job's script had begun, by its cleaned log; until then only the runner writes.

    `holds` says whether the log contains the given bytes. In a log that does not begin like a
    runner's, the script counts as begun.
    """
    runners = any(_RUNNER in line for line in lines[:20])
    return not runners or any(map(holds, _STEP))


_STAGE = re.compile(
    r"Resolving secrets|Preparing the \"|Preparing executor|Preparing environment"
    r"|Getting source from Git|Restoring cache|Downloading artifacts"
    r"|Starting service |Pulling docker image |Using locally found image "
)
_SERVICE = re.compile(r"\*\*\* WARNING: Service |Service container logs:")
_SERVICE_END = re.compile(r"\*{6,20}$")


def list_runner_lines(job: FailingJob) -> Sequence[tuple[int, str]]:
    """Return the lines at the log's end that the runner wrote about what ended the job: of the last
    stage before the script, without the logs of services, or, if the script has begun, the last
    ones."""
    if job.began:
        final = [at for at, (_, text) in enumerate(job.end) if JOB_FAILED.match(text)]
        return job.end[final[-1] :] if final else ()
    stages = [at for at, (_, text) in enumerate(job.end) if _STAGE.match(text)]
    return tuple(_drop_services(job.end[stages[-1] if stages else 0 :]))


def _drop_services(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    inside = False
    for number, text in lines:
        inside = (inside or bool(_SERVICE.match(text))) and not JOB_FAILED.match(text)
        if not inside:
            yield number, text
        inside = inside and not _SERVICE_END.match(text)
