"""What the runner itself writes in a job's log, and what the sentences of a rule name of it. Pure.

Names come from logs and from the project's configuration: only plain characters are taken, and each
stands between backticks, so that it is no link, no mention and no markup.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

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
    lines: list[tuple[int, str]] = []
    in_service = False
    for number, text in job.end[stages[-1] if stages else 0 :]:
        in_service = (in_service or bool(_SERVICE.match(text))) and not JOB_FAILED.match(text)
        if not in_service:
            lines.append((number, text))
        in_service = in_service and not _SERVICE_END.match(text)
    return lines


def compile_patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns of lines, for `re.search`. They must be bounded: log lines are untrusted."""
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


NO_DISK = compile_patterns(
    r"/sys/fs/cgroup|/dev/shm|shared memory|/proc/sys/",
    r"inotify|fsnotify|\bwatch(?:es|ers?)?\b|semget|semaphore|keyring|session key|devpts|\bpty\b",
)
"""Other things of which a kernel has only so many, in the words of a full disk."""

LAST_WORDS = compile_patterns(
    r"^ERROR: Job failed \(system failure\): \S",
    r"^ERROR: (?:Preparation failed|Failed to|Job failed)",
)


CONTAINER_END = compile_patterns(
    r"\bOOM|\bout of memory\b|\bmemory (?:limit|cgroup)|\blow on resource\b",
    r"\bephemeral[ -]storage\b|\bexit (?:code|status):? ?(?:137|143|139)\b",
    r"\bsignal: killed\b|\bevicted\b|\beviction\b",
    r"\bcontainer\b.{0,80}\b(?:not found|died|exited|terminated|was killed|is not running)\b",
    r"\bno such container\b|\bunexpectedly (?:ended|terminated|stopped)\b|\bDeadlineExceeded\b",
    r"\bTerminationByKubelet\b|\bpod\b.{0,200}\b(?:status is|phase:?) \"?failed",
)
"""How the runner says that the job's container or pod was ended, by what the job may have done."""

NOT_THE_JOB = compile_patterns(
    r"\b(?:EvictionByEvictionAPI|PreemptionByScheduler|DeletionByTaintManager|DeletionByPodGC)\b"
)
"""Kubernetes' reasons why a pod had to go that are none of the pod's: its node was emptied or lost,
or more urgent pods needed the room."""

# ------------------------------------------------------------------------------ names for sentences

HELPER_IMAGE = "gitlab-runner-helper"
"""A part of the name of the image that the runner itself adds to a job."""

LONGEST = 2000
"""The most characters of a line that a rule reads."""

_MOST_TAGS = 12
_UNPLAIN = re.compile(r"[^\w.:/@+=, ()<>#-]")
_IMAGE = re.compile(
    r"(?:\bpull(?:ing)? (?:and unpack )?image \"|\bmetadata for |\bfailed to solve: |\bdenied for "
    r"|\bmanifest for )([\w./:@-]{1,200}[\w:])(?=[\",:\s]|$)"
)
_USED = re.compile(r"Using \w{1,40} executor with image ([\w./:@-]{1,200}[\w:])")
_ASKED = re.compile(r"\"?https?://([\w.-]{1,200}(?::\d{1,5})?)/")
_LOOKED_UP = re.compile(r"\blookup ([\w.-]{1,200}\w)|resolve host: ([\w.-]{1,200}\w)")
_CREDENTIALS = re.compile(r"Authenticating with credentials from ([$\w./ ()-]{1,100}[\w)])")
_SCHEDULER = re.compile(r"\bUnschedulable: \"([^\"]{1,400})\"?")
_SECRET = re.compile(r"^Resolving secret \"([\w.-]{1,100})\"")


def name_facts(job: FailingJob, line: str) -> Mapping[str, str]:
    """Return what is known of a job that failed by this `line`, as words for a sentence.

    `image`, `registry`, `host` and `stage` always are words; `tags` says which tags the job has;
    the others are "", or a name or a whole sentence after a blank.
    """
    texts = [line, *(text for _, text in reversed(job.end))]
    image = find_image(job, line)
    first, slash, _ = image.partition("/")
    registry = first if slash and ("." in first or ":" in first) else ""  # "" also for Docker Hub
    host = _find(_ASKED, [line]) or _find(_LOOKED_UP, [line]) or registry
    kind = "the runner's helper image" if HELPER_IMAGE in image else "the image"
    tags = ", ".join(map(quote, job.tags[:_MOST_TAGS]))
    said = f"The job's tag{'s are' if len(job.tags) > 1 else ' is'} {tags}."
    stage = next((text for _, text in list_runner_lines(job)[:1]), "")
    return {
        "image": f"{kind} {quote(image)}" if image else "the job's image",
        "wanted": f" {quote(named)}" if (named := _find(_IMAGE, [line]).rstrip(":")) else "",
        "registry": f"the registry {quote(host)}" if host else "the container registry",
        "host": quote(host) if host else "its host",
        "tags": (
            f"{said if tags else 'The job has no tags.'} {_UNPLAIN.sub('', job.runners)}".rstrip()
        ),
        "runner": f" {quote(job.runner)}" if job.runner else "",
        "credentials": _say("The runner signed in with credentials from {}", _CREDENTIALS, texts),
        "scheduler": _say("Kubernetes says: {}", _SCHEDULER, texts),
        "stage": next(
            (does for heading, does in _STAGES.items() if stage.startswith(heading)), "prepared it"
        ),
        "secret": _say("It was getting the secret {}", _SECRET, texts),
    }


_STAGES = {
    "Resolving secrets": "got its secrets",
    "Getting source": "fetched the sources",
    "Restoring cache": "restored the cache",
    "Downloading artifacts": "downloaded the artifacts of earlier jobs",
}


def find_image(job: FailingJob, line: str) -> str:
    """Return the image that a line is about, else the job's own; "" if no line names it."""
    texts = [text for _, text in reversed(job.end)]
    return _find(_IMAGE, [line, *texts]) or _find(_USED, texts)


def quote(text: str) -> str:
    """Return a stranger's words between backticks, without characters that could end them."""
    return f"`{_UNPLAIN.sub('', text)[:400].strip()}`"


def _say(sentence: str, pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    found = _find(pattern, texts)
    return f" {sentence.format(quote(found))}." if found else ""


def _find(pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    found = next(filter(None, (pattern.search(text[:LONGEST]) for text in texts)), None)
    return next(filter(None, found.groups())) if found else ""
