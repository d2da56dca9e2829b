"""Rules that need a line of the job's log: a rate limit, a full disk, no network, no image."""

import re
from dataclasses import replace

from worker.verdict.rules.base import (
    Rule,
    Sight,
    compile_patterns,
    may_change_configuration,
    take_longest,
)
from worker.verdict.rules.named import find_image, is_helper_image
from worker.verdict.rules.runner_log import list_runner_lines
from worker.verdict.verdict import Verdict

_PREPARING = frozenset(
    {"runner_system_failure", "runner_external_dependency_failure", "runner_configuration_error"}
    | {"image_pull_failure", "script_failure", "unknown_failure", ""}
)
"""The failure reasons that GitLab gives if the runner could not prepare a job; older runners report
script_failure for an image, and runner_system_failure for what newer ones tell apart."""

_SCRIPT = frozenset({"script_failure"})

_DOWN = (
    r"(?:no such host|i/o timeout|connection refused|connection reset by peer|TLS handshake timeout"
    r"|temporary failure in name resolution|server misbehaving|network is unreachable"
    r"|50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)"
    r"|Client\.Timeout exceeded|context deadline exceeded)"
)

_PULL = r"(?:failed to pull image|image pull failed)"

_UNKNOWN_SIGNER = r"x509: certificate signed by unknown authority"
_OUT_OF_TIME = r"x509: certificate has expired or is not yet valid"


def may_name_image(sight: Sight) -> bool:
    """For `Rule.doubtful`: whether the merge request may have chosen the image. The runner's helper
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


def _may_lack_own_image(sight: Sight) -> bool:
    """For `Rule.doubtful`: whether this merge request may be to blame for the missing image. It may
    have changed the image's name, or its pipeline or project should have built the image."""
    text = f"{sight.text} {find_image(sight.job, sight.text)}".lower()
    scene = sight.scene
    ours = scene.project.lower() in text or (scene.sha and scene.sha[:8] in text)
    return may_name_image(sight) or bool(ours)


def _pulls_no_more(sight: Sight) -> bool:
    """For `Rule.doubtful`: whether the merge request may have named the image that is pulled."""
    image = find_image(sight.job, sight.text)
    return may_change_configuration(sight) and (not image or _names_part(sight, image))


# ----------------------------------------------------------------------------------- the registry

_RATE_LIMIT = Rule(
    name="registry-rate-limit",
    cause="The container registry refused to give out {image}: its limit of pulls in a time is "
    "reached.",
    to_do="Retry later. If it happens often, let the runners sign in to the registry or use the "
    "dependency proxy.",
    reasons=_PREPARING,
    lines=compile_patterns(r"you have reached your (?:unauthenticated )?pull rate limit"),
    doubtful=_pulls_no_more,
)
_REGISTRY = (
    _RATE_LIMIT,
    replace(
        _RATE_LIMIT,
        name="registry-rate-limit-in-script",
        cause="The container registry refused to give out an image{wanted}: its limit of pulls in "
        "a time is reached.",
        reasons=_SCRIPT,
        script=True,
        # The change may have named the image in a Dockerfile.
        doubtful=may_change_configuration,
    ),
    Rule(
        name="registry-logins-locked",
        # Whose credentials they are, and who has to renew them, no line tells.
        verdict=Verdict.UNKNOWN,
        cause="The registry has locked an account or address after too many failed logins: the "
        "credentials are wrong.{credentials}",
        to_do="Look which credentials are used, and renew them.",
        reasons=_PREPARING,
        lines=compile_patterns(r"toomanyrequests: too many failed login attempts"),
    ),
    Rule(
        name="registry-busy",
        cause="The runner wanted {image}, and {registry} answered that it gets too many requests.",
        to_do="Retry later. If it happens often, tell whoever keeps the runners or the registry.",
        reasons=_PREPARING,
        lines=compile_patterns(rf"{_PULL}.{{0,500}}(?:\b429 too many requests|toomanyrequests\b)"),
        doubtful=may_name_image,
    ),
    Rule(
        name="registry-unreachable",
        cause="The runner could not reach {registry} to get {image}.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or the registry.",
        reasons=_PREPARING,
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}{_DOWN}",
            rf"error response from daemon: .{{0,300}}/v2/.{{0,300}}{_DOWN}",
        ),
        # The change may have named another registry.
        doubtful=may_name_image,
    ),
    Rule(
        name="registry-untrusted",
        cause="The runner does not trust the certificate of {registry}, as it does not know who "
        "signed it, and so it could not get {image}.",
        to_do="Tell whoever keeps the runners to trust that authority, or whoever keeps the "
        "registry to use a certificate that they trust.",
        reasons=_PREPARING,
        lines=compile_patterns(rf"{_PULL}.{{0,500}}{_UNKNOWN_SIGNER}"),
        doubtful=may_name_image,
    ),
    Rule(
        name="registry-certificate-early",
        cause="To the machine that runs the job, the certificate of {registry} is of the future: "
        "that machine's clock is behind, or the certificate is not valid yet.",
        to_do="Tell whoever keeps the runners to set the machine's clock, if it is that.",
        reasons=_PREPARING,
        lines=compile_patterns(rf"{_PULL}.{{0,500}}{_OUT_OF_TIME}.{{0,100}} is before "),
        doubtful=may_name_image,
    ),
    Rule(
        name="registry-certificate-expired",
        cause="The certificate of {registry} has expired, so the runner could not get {image}.",
        to_do="Tell whoever keeps the registry to renew its certificate.",
        reasons=_PREPARING,
        lines=compile_patterns(rf"{_PULL}.{{0,500}}{_OUT_OF_TIME}.{{0,100}} is after "),
        doubtful=may_name_image,
    ),
    Rule(
        name="image-name",
        # An empty variable may be a setting's, a missing file's or the change's fault.
        verdict=Verdict.UNKNOWN,
        cause="The image has no valid name: a variable in it may be empty or wrong.",
        to_do="See from which variables the job's `image` is made, and where they are set.",
        reasons=_PREPARING,
        lines=compile_patterns(
            r"invalid reference format|couldn't parse image name|\bInvalidImageName\b"
        ),
    ),
    Rule(
        name="registry-denied",
        cause="The registry did not let the runner have {image}, or does not have it.{credentials}",
        to_do="Check that these credentials are valid and may read the image, and that its name is "
        "right.",
        reasons=_PREPARING,
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}(?:pull access denied|\bunauthorized\b|\bdenied\b|\b40[13] )"
        ),
        doubtful=_may_lack_own_image,
    ),
    Rule(
        name="image-pull",
        cause="The runner could not get {image}: the registry does not have it.",
        to_do="Check whether the image and its tag are in the registry still, and in the CI "
        "configuration that they are what was meant.",
        reasons=_PREPARING,
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}(?:manifest unknown|not found|repository does not exist)"
        ),
        unless=compile_patterns(r"\bplatform\b|no matching manifest|executable file not found"),
        doubtful=_may_lack_own_image,
    ),
    Rule(
        name="image-pull-unexplained",
        # The image may be missing, refused, or too slow to come.
        verdict=Verdict.UNKNOWN,
        cause="Kubernetes could not get {image}; the log does not say why.",
        to_do="Check the image's name, and ask whoever keeps the cluster what its events say.",
        reasons=_PREPARING,
        lines=compile_patterns(
            r"image pull failed: Back-off pulling image", r"\bErrImagePull\b|\bImagePullBackOff\b"
        ),
    ),
)

# ---------------------------------------------------------------------------------------- the disk

_NO_DISK = compile_patterns(
    r"/sys/fs/cgroup|/dev/shm|shared memory|/proc/sys/",
    r"inotify|fsnotify|\bwatch(?:es|ers?)?\b|semget|semaphore|keyring|session key|devpts|\bpty\b",
)
"""Other things of which a kernel has only so many, in the words of a full disk."""

_DISK_FULL = Rule(
    name="disk-full",
    cause="The disk of the runner{runner} was full, or a quota on it used up.",
    to_do="Retry the job, on another runner if you can. Tell whoever keeps the runners to free "
    "disk.",
    reasons=_PREPARING,
    lines=compile_patterns(r"\bno space left on device\b", r"\bdisk quota exceeded\b"),
    unless=_NO_DISK,
    # The change may ask for a larger image, or for a disk in memory.
    doubtful=lambda sight: sight.job.began or may_change_configuration(sight),
)
_DISK = (
    _DISK_FULL,
    replace(
        _DISK_FULL,
        name="disk-full-in-script",
        # The script itself may have filled the disk.
        verdict=Verdict.UNKNOWN,
        cause="The script could not write: no room was left there, on a disk or within a quota.",
        to_do="See what the script writes there, and how much the runner{runner} has.",
        reasons=_SCRIPT,
        lines=compile_patterns(
            r"(?:^|[:\s\])])no space left on device[.)'\"\]]{0,3}$",
            r"^(?:npm (?:ERR!|error) )(?:code ENOSPC|nospc\b)",
            r"\bENOSPC: no space left on device\b",
            r"disk quota exceeded[.)]?$",
        ),
        script=True,
    ),
)

# ---------------------------------------------------------------------------------- the repository

_CHECKED_OUT = re.compile(r"Checking out |Updating/initializing submodules|Updated submodules")
_FETCHING = re.compile(r"Getting source from Git|Fetching changes|Cloning repository")
_FOLDER = re.compile(r"nitialized (?:empty|existing) Git repository in (.{1,400}?)/\.git/?$")
_URL = re.compile(r"unable to access '(https?://[^']{1,400})'")


def _fetches_repository(sight: Sight) -> bool:
    """For `Rule.holds`: whether the runner fetched the project's repository, and not a submodule, a
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


_UNFETCHED = Rule(
    name="repository-unreachable",
    cause="The runner{runner} could not fetch the project's repository: {host} was not reached, or "
    "gave no answer.",
    to_do="Retry the job. If it goes on, tell whoever keeps the runners or GitLab.",
    reasons=_PREPARING,
    lines=compile_patterns(
        r"^fatal: unable to access '.{1,400}': (?:Failed to connect|Connection timed out"
        r"|Recv failure|Operation timed out|The requested URL returned error: 50\d"
        r"|SSL_ERROR_SYSCALL|OpenSSL SSL_connect)",
        r"^(?:error|fatal): RPC failed; (?:curl|HTTP) (?:\d{2} |50\d)",
    ),
    holds=_fetches_repository,
)
_UNRESOLVED = compile_patterns(r"^fatal: unable to access '.{1,400}': Could not resolve host")
_REPOSITORY = (
    replace(
        _UNFETCHED,
        name="repository-host-unknown",
        cause="The runner{runner} could not fetch the project's repository: the name {host} could "
        "not be resolved where the job ran.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners to look at their DNS.",
        lines=_UNRESOLVED,
    ),
    _UNFETCHED,
    Rule(
        name="other-repository-unreachable",
        # Its address may be wrong, and the change may have brought it.
        verdict=Verdict.UNKNOWN,
        cause="While the runner{runner} fetched the sources, git could not get something other "
        "than the project itself, such as a submodule, from {host}.",
        to_do="Check that address, and whether it can be reached from the runner.",
        reasons=_PREPARING,
        lines=(*_UNRESOLVED, *_UNFETCHED.lines),
    ),
)

# ------------------------------------------------------------------------------------- the cluster

_UNSCHEDULED = Rule(
    name="pod-unscheduled",
    cause="The job's pod was not started in time.{scheduler}",
    to_do="Retry later. If it goes on, tell whoever keeps the cluster.",
    reasons=_PREPARING,
    lines=compile_patterns(r"timed out waiting for pod to start"),
    unless=compile_patterns(r"ImagePull|image pull|CrashLoop|CreateContainer"),
    # A job can ask for more than any node has, or for a node that there is not.
    doubtful=lambda sight: may_change_configuration(sight) or not _was_unschedulable(sight),
)


def _was_unschedulable(sight: Sight) -> bool:
    """Whether the last word on the pod is that no node has enough CPU or memory for it."""
    events = [text for _, text in list_runner_lines(sight.job) if text.startswith("\t")]
    return (
        bool(events) and re.search(r"Unschedulable: .{0,400}Insufficient", events[-1]) is not None
    )


_NEVER_BEGAN = Rule(
    name="script-never-began",
    verdict=Verdict.UNKNOWN,
    cause="The job's script never began: the job ended while the runner{runner} {stage}.",
    to_do="See what the runner says there.",
    reasons=_SCRIPT,
    lines=compile_patterns(
        r"^(?:error|fatal)\b(?!: Job failed)",
        r"^remote: (?!Enumerating|Counting|Compressing|Total|Resolving)\w",
    ),
    # What follows the first trouble of a stage follows from it.
    choose=lambda found: found[0],
    holds=lambda sight: not sight.job.began,
)

RULES = (
    # The runner tells the same twice, as a warning and as an error, and cuts either.
    *(replace(rule, choose=take_longest) for rule in _REGISTRY),
    *_DISK,
    *_REPOSITORY,
    _UNSCHEDULED,
    _NEVER_BEGAN,
)
