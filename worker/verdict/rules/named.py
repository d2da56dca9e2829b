"""What the sentences of a rule name: the image, the registry, the tags, the runner. Pure.

Names come from logs and from the project's configuration: only plain characters are taken, and each
stands between backticks, so that it is no link, no mention and no markup.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from worker.verdict.jobs import FailingJob
from worker.verdict.rules.runner_log import list_runner_lines

_HELPER = "gitlab-runner-helper"
"""A part of the name of the image that the runner itself adds to a job."""

_LONGEST = 2000
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
    host = _find(_ASKED, [line]) or _find(_LOOKED_UP, [line]) or _find_registry(image)
    return {
        "image": _name_image(image),
        "wanted": f" {quote(named)}" if (named := _find(_IMAGE, [line]).rstrip(":")) else "",
        "registry": f"the registry {quote(host)}" if host else "the container registry",
        "host": quote(host) if host else "its host",
        "tags": f"{_name_tags(job.tags)} {_UNPLAIN.sub('', job.runners)}".rstrip(),
        "runner": f" {quote(job.runner)}" if job.runner else "",
        "credentials": _say("The runner signed in with credentials from {}", _CREDENTIALS, texts),
        "scheduler": _say("Kubernetes says: {}", _SCHEDULER, texts),
        "stage": _name_stage(job),
        "secret": _say("It was getting the secret {}", _SECRET, texts),
    }


_STAGES = {
    "Resolving secrets": "got its secrets",
    "Getting source": "fetched the sources",
    "Restoring cache": "restored the cache",
    "Downloading artifacts": "downloaded the artifacts of earlier jobs",
}


def _name_stage(job: FailingJob) -> str:
    headings = (text for _, text in list_runner_lines(job)[:1])
    named = (does for text in headings for each, does in _STAGES.items() if text.startswith(each))
    return next(named, "prepared it")


def find_image(job: FailingJob, line: str) -> str:
    """Return the image that a line is about, else the job's own; "" if no line names it."""
    texts = [text for _, text in reversed(job.end)]
    return _find(_IMAGE, [line, *texts]) or _find(_USED, texts)


def is_helper_image(image: str) -> bool:
    """Whether an image is the runner's own, which no job names."""
    return _HELPER in image


def quote(text: str) -> str:
    """Return a stranger's words between backticks, without characters that could end them."""
    return f"`{_UNPLAIN.sub('', text)[:400].strip()}`"


def _name_image(image: str) -> str:
    if not image:
        return "the job's image"
    kind = "the runner's helper image" if is_helper_image(image) else "the image"
    return f"{kind} {quote(image)}"


def _find_registry(image: str) -> str:
    """Return the host of an image's name, "" if it is on Docker Hub or not known."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first) else ""


def _name_tags(tags: tuple[str, ...]) -> str:
    if not tags:
        return "The job has no tags."
    some = ", ".join(map(quote, tags[:_MOST_TAGS]))
    return f"The job's tag{'s are' if len(tags) > 1 else ' is'} {some}."


def _say(sentence: str, pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    found = _find(pattern, texts)
    return f" {sentence.format(quote(found))}." if found else ""


def _find(pattern: re.Pattern[str], texts: Iterable[str]) -> str:
    return next(_list(pattern, texts), "")


def _list(pattern: re.Pattern[str], texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if found := pattern.search(text[:_LONGEST]):
            yield next(filter(None, found.groups()))
