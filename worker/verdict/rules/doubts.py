"""What a rule may ask of what it has found before it is certain. Pure."""

import re

from worker.verdict.file_kinds import may_choose_runner, may_configure
from worker.verdict.rules.rule import Sight
from worker.verdict.rules.runner_log import find_image, is_helper_image, list_runner_lines


def may_change_configuration(sight: Sight) -> bool:
    """Whether the merge request may have changed its jobs' configuration."""
    paths = sight.scene.changed_paths
    return paths is None or any(map(may_configure, paths))


def may_choose_runners(sight: Sight) -> bool:
    """Whether the merge request may have changed which runners may take jobs,
    which no image decides."""
    paths = sight.scene.changed_paths
    return paths is None or any(map(may_choose_runner, paths))


def may_name_image(sight: Sight) -> bool:
    """Whether the merge request may have chosen the image. The runner's helper
    image is never its choice."""
    image = find_image(sight.job, sight.text)
    if is_helper_image(image):
        return False
    return may_change_configuration(sight) or _names_part(sight, image)


def _names_part(sight: Sight, image: str) -> bool:
    """Whether the merge request adds a line with the image's name or its tag: a file of versions
    may be what the configuration reads."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    told = (each for each in (name, tag) if len(each) > 2 and each != "latest")
    return any(map(sight.scene.may_add, told))


def may_lack_own_image(sight: Sight) -> bool:
    """Whether this merge request may be to blame for the missing image. It may
    have changed the image's name, or its pipeline or project should have built the image."""
    text = f"{sight.text} {find_image(sight.job, sight.text)}".lower()
    scene = sight.scene
    ours = scene.project.lower() in text or (scene.sha and scene.sha[:8] in text)
    return may_name_image(sight) or bool(ours)


def may_name_pulled_image(sight: Sight) -> bool:
    """Whether the merge request may have named the image that is pulled."""
    image = find_image(sight.job, sight.text)
    return may_change_configuration(sight) and (not image or _names_part(sight, image))


def may_be_the_job(sight: Sight) -> bool:
    """Whether the job itself may have made the runner fail: by a variable, a service or an image
    that its configuration names, or as the runner's last lines are about getting an image."""
    texts = [text for _, text in list_runner_lines(sight.job)]
    return may_change_configuration(sight) or any(map(_ABOUT_IMAGE.search, texts))


_ABOUT_IMAGE = re.compile(
    r"failed to pull|image pull failed|pull access denied|\bmanifest\b", re.IGNORECASE
)


def was_unschedulable(sight: Sight) -> bool:
    """Whether the last word on the pod is that no node has enough CPU or memory for it."""
    events = [text for _, text in list_runner_lines(sight.job) if text.startswith("\t")]
    return any(re.search(r"Unschedulable: .{0,400}Insufficient", text) for text in events[-1:])


_CHECKED_OUT = re.compile(r"Checking out |Updating/initializing submodules|Updated submodules")
_FETCHING = re.compile(r"Getting source from Git|Fetching changes|Cloning repository")
_FOLDER = re.compile(r"nitialized (?:empty|existing) Git repository in (.{1,400}?)/\.git/?$")
_URL = re.compile(r"unable to access '(https?://[^']{1,400})'")


def fetches_repository(sight: Sight) -> bool:
    """Whether the runner fetched the project's repository, and not a submodule, a
    file in LFS, or the repository of another address."""
    before = [text for number, text in list_runner_lines(sight.job) if number <= sight.number]
    if not any(map(_FETCHING.match, before)) or any(map(_CHECKED_OUT.match, before)):
        return False
    found = _URL.search(sight.text)
    return found is None or _is_repository(found[1], sight)


def _is_repository(url: str, sight: Sight) -> bool:
    """Whether a URL is that of the repository for which the runner has made a folder. A runner may
    know GitLab by another name than its users, so that the path has to be the same, and the host
    need not."""
    _, _, rest = url.partition("://")
    path = rest.partition("/")[2].rstrip("/").removesuffix(".git").lower()
    page = sight.job.url.partition("://")[2].partition("/-/")[0].partition("/")[2].lower()
    folders = (_FOLDER.search(text) for _, text in list_runner_lines(sight.job))
    made = any(each and each[1].lower().endswith(f"/{path}") for each in folders)
    return bool(path) and (made or path in {page, sight.scene.project.lower()})
