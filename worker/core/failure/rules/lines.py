"""Rules that need a line of the job's log: a rate limit, a full disk, no network, no image."""

from dataclasses import replace

from worker.core.failure.rules.base import (
    Rule,
    Scene,
    compile_patterns,
    may_change_configuration,
)

_PREPARING = frozenset(
    {"runner_system_failure", "image_pull_failure", "script_failure", "unknown_failure", ""}
)
"""The failure reasons that GitLab gives if the runner could not prepare a job; older runners report
script_failure for an image."""

_SCRIPT = frozenset({"script_failure"})

_DOWN = (
    r"(?:no such host|i/o timeout|connection refused|connection reset by peer|TLS handshake timeout"
    r"|temporary failure in name resolution|server misbehaving|network is unreachable"
    r"|50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)"
    r"|Client\.Timeout exceeded|context deadline exceeded)"
)

_UNTRUSTED = r"x509: certificate (?:has expired or is not yet valid|signed by unknown authority)"


def _is_own_image(scene: Scene, line: str) -> bool:
    """For `Rule.doubtful`: whether this merge request may be to blame for the missing image. It may
    have changed the image's name, or its pipeline or project should have built the image."""
    text = line.lower()
    ours = scene.project.lower() in text or (scene.sha and scene.sha[:8] in text)
    return may_change_configuration(scene, line) or bool(ours)


_RATE_LIMIT = Rule(
    name="registry-rate-limit",
    cause=(
        "The container registry refused to give out an image: its limit of pulls in a time is "
        "reached."
    ),
    to_do=(
        "Retry later. If it happens often, let the runners sign in to the registry or use the "
        "dependency proxy."
    ),
    reasons=_PREPARING,
    lines=compile_patterns(
        r"toomanyrequests\b",
        r"you have reached your (?:unauthenticated )?pull rate limit",
        r"pull\w* .{1,200}: 429 too many requests",
    ),
)
_DISK_FULL = Rule(
    name="disk-full",
    cause="The runner's disk was full, so the job could not write.",
    to_do="Retry the job, on another runner if you can. Tell whoever keeps the runners to free "
    "disk.",
    reasons=_PREPARING,
    lines=compile_patterns(r"\bno space left on device\b", r"\bdisk quota exceeded\b"),
)

RULES = (
    _RATE_LIMIT,
    replace(_RATE_LIMIT, name="registry-rate-limit-in-script", reasons=_SCRIPT, script=True),
    _DISK_FULL,
    replace(
        _DISK_FULL,
        name="disk-full-in-script",
        reasons=_SCRIPT,
        lines=compile_patterns(
            r"(?:^|[:\s\])])no space left on device[.)'\"\]]{0,3}$",
            r"^(?:npm (?:ERR!|error) )(?:code ENOSPC|nospc\b)",
            r"\bENOSPC: no space left on device\b",
            r"disk quota exceeded[.)]?$",
        ),
        script=True,
        # The script itself may have filled the disk.
        doubtful=lambda scene, line: True,
    ),
    Rule(
        name="registry-unreachable",
        cause="The runner could not reach the container registry to get the job's image.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or the registry.",
        reasons=_PREPARING,
        lines=compile_patterns(
            rf"failed to pull image .{{0,500}}{_DOWN}",
            rf"image pull failed.{{0,500}}{_DOWN}",
            rf"error response from daemon: .{{0,300}}/v2/.{{0,300}}{_DOWN}",
        ),
        # The change may have named another registry.
        doubtful=may_change_configuration,
    ),
    Rule(
        name="registry-certificate",
        cause=(
            "The runner could not trust the container registry: the registry's certificate has "
            "expired, or the runner does not know who signed it."
        ),
        to_do=(
            "Tell whoever keeps the registry to renew its certificate, or whoever keeps the "
            "runners to trust its authority and to see that their clock is right; then retry."
        ),
        reasons=_PREPARING,
        lines=compile_patterns(
            rf"failed to pull image .{{0,500}}{_UNTRUSTED}",
            rf"image pull failed.{{0,500}}{_UNTRUSTED}",
        ),
        # The change may have named another registry.
        doubtful=may_change_configuration,
    ),
    Rule(
        name="repository-unreachable",
        cause="The runner could not fetch the repository from GitLab.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or GitLab.",
        reasons=_PREPARING,
        lines=compile_patterns(
            r"^fatal: unable to access '.{1,300}': (?:Could not resolve host|Failed to connect"
            r"|Connection timed out|Recv failure|Operation timed out|The requested URL returned"
            r" error: 50\d|SSL_ERROR_SYSCALL|OpenSSL SSL_connect)",
            r"^(?:error|fatal): RPC failed; (?:curl|HTTP) (?:\d{2} |50\d)",
        ),
    ),
    Rule(
        name="image-pull",
        cause=(
            "The runner could not get the job's image: the registry does not have it or does not "
            "let the runner have it."
        ),
        to_do=(
            "Check the image's name and tag in the CI configuration and the runner's access to "
            "the registry, then retry."
        ),
        reasons=_PREPARING,
        lines=compile_patterns(
            r"^(?:ERROR|WARNING): (?:Job failed(?: \(system failure\))?: )?.{0,200}"
            r"(?:failed to pull image|image pull failed).{0,500}(?:manifest unknown|not found"
            r"|pull access denied|repository does not exist|unauthorized|denied)",
            r"image pull failed: Back-off pulling image",
            r"\bErrImagePull\b|\bImagePullBackOff\b|\bInvalidImageName\b",
        ),
        doubtful=_is_own_image,
    ),
)
