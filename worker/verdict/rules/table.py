"""The rules: every cause that is recognised without a model, the narrower ones first. Pure.

Those that need a line of the job's log come before those for which GitLab's reason is enough. A
wrong rule is worse than no rule. A rule may rely only on GitLab's `failure_reason`, on what only
the runner can have written, or on a script's last lines if they show no other trouble.
"""

from dataclasses import replace

from worker.verdict.facts import LOST, NO_RUNNER, TIME_LIMITS, WAITED
from worker.verdict.rules.rule import Rule, Sight
from worker.verdict.rules.runner_log import (
    CONTAINER_END,
    LAST_WORDS,
    NO_DISK,
    NOT_THE_JOB,
    compile_patterns,
)
from worker.verdict.verdict import Verdict

_SCRIPT = frozenset({"script_failure"})

_DOWN = (
    r"(?:no such host|i/o timeout|connection refused|connection reset by peer|TLS handshake timeout"
    r"|temporary failure in name resolution|server misbehaving|network is unreachable"
    r"|50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)"
    r"|Client\.Timeout exceeded|context deadline exceeded)"
)

_PULL = r"(?:failed to pull image|image pull failed)"

_OUT_OF_TIME = r"x509: certificate has expired or is not yet valid"


_RATE_LIMIT = Rule(
    name="registry-rate-limit",
    cause="The container registry refused to give out {image}: its limit of pulls in a time is "
    "reached.",
    to_do="Retry later. If it happens often, let the runners sign in to the registry or use the "
    "dependency proxy.",
    lines=compile_patterns(r"you have reached your (?:unauthenticated )?pull rate limit"),
    doubtful=Sight.may_name_pulled_image,
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
        doubtful=Sight.may_change_configuration,
    ),
    Rule(
        name="registry-logins-locked",
        # Whose credentials they are, and who has to renew them, no line tells.
        verdict=Verdict.UNKNOWN,
        cause="The registry has locked an account or address after too many failed logins: the "
        "credentials are wrong.{credentials}",
        to_do="Look which credentials are used, and renew them.",
        lines=compile_patterns(r"toomanyrequests: too many failed login attempts"),
    ),
    Rule(
        name="registry-busy",
        cause="The runner wanted {image}, and {registry} answered that it gets too many requests.",
        to_do="Retry later. If it happens often, tell whoever keeps the runners or the registry.",
        lines=compile_patterns(rf"{_PULL}.{{0,500}}(?:\b429 too many requests|toomanyrequests\b)"),
        doubtful=Sight.may_name_image,
    ),
    Rule(
        name="registry-unreachable",
        cause="The runner could not reach {registry} to get {image}.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or the registry.",
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}{_DOWN}",
            rf"error response from daemon: .{{0,300}}/v2/.{{0,300}}{_DOWN}",
        ),
        # The change may have named another registry.
        doubtful=Sight.may_name_image,
    ),
    Rule(
        name="registry-untrusted",
        cause="The runner does not trust the certificate of {registry}, as it does not know who "
        "signed it, and so it could not get {image}.",
        to_do="Tell whoever keeps the runners to trust that authority, or whoever keeps the "
        "registry to use a certificate that they trust.",
        lines=compile_patterns(rf"{_PULL}.{{0,500}}x509: certificate signed by unknown authority"),
        doubtful=Sight.may_name_image,
    ),
    Rule(
        name="registry-certificate-early",
        cause="To the machine that runs the job, the certificate of {registry} is of the future: "
        "that machine's clock is behind, or the certificate is not valid yet.",
        to_do="Tell whoever keeps the runners to set the machine's clock, if it is that.",
        lines=compile_patterns(rf"{_PULL}.{{0,500}}{_OUT_OF_TIME}.{{0,100}} is before "),
        doubtful=Sight.may_name_image,
    ),
    Rule(
        name="registry-certificate-expired",
        cause="The certificate of {registry} has expired, so the runner could not get {image}.",
        to_do="Tell whoever keeps the registry to renew its certificate.",
        lines=compile_patterns(rf"{_PULL}.{{0,500}}{_OUT_OF_TIME}.{{0,100}} is after "),
        doubtful=Sight.may_name_image,
    ),
    Rule(
        name="image-name",
        # An empty variable may be a setting's, a missing file's or the change's fault.
        verdict=Verdict.UNKNOWN,
        cause="The image has no valid name: a variable in it may be empty or wrong.",
        to_do="See from which variables the job's `image` is made, and where they are set.",
        lines=compile_patterns(
            r"invalid reference format|couldn't parse image name|\bInvalidImageName\b"
        ),
    ),
    Rule(
        name="registry-denied",
        cause="The registry did not let the runner have {image}, or does not have it.{credentials}",
        to_do="Check that these credentials are valid and may read the image, and that its name is "
        "right.",
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}(?:pull access denied|\bunauthorized\b|\bdenied\b|\b40[13] )"
        ),
        doubtful=Sight.may_lack_own_image,
    ),
    Rule(
        name="image-pull",
        cause="The runner could not get {image}: the registry does not have it.",
        to_do="Check whether the image and its tag are in the registry still, and in the CI "
        "configuration that they are what was meant.",
        lines=compile_patterns(
            rf"{_PULL}.{{0,500}}(?:manifest unknown|not found|repository does not exist)"
        ),
        unless=compile_patterns(r"\bplatform\b|no matching manifest|executable file not found"),
        doubtful=Sight.may_lack_own_image,
    ),
    Rule(
        name="image-pull-unexplained",
        # The image may be missing, refused, or too slow to come.
        verdict=Verdict.UNKNOWN,
        cause="Kubernetes could not get {image}; the log does not say why.",
        to_do="Check the image's name, and ask whoever keeps the cluster what its events say.",
        lines=compile_patterns(
            r"image pull failed: Back-off pulling image", r"\bErrImagePull\b|\bImagePullBackOff\b"
        ),
    ),
)

_DISK_FULL = Rule(
    name="disk-full",
    cause="The disk of the runner{runner} was full, or a quota on it used up.",
    to_do="Retry the job, on another runner if you can. Tell whoever keeps the runners to free "
    "disk.",
    lines=compile_patterns(r"\bno space left on device\b", r"\bdisk quota exceeded\b"),
    unless=NO_DISK,
    # The change may ask for a larger image, or for a disk in memory.
    doubtful=lambda sight: sight.job.began or sight.may_change_configuration(),
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

_UNFETCHED = Rule(
    name="repository-unreachable",
    cause="The runner{runner} could not fetch the project's repository: {host} was not reached, or "
    "gave no answer.",
    to_do="Retry the job. If it goes on, tell whoever keeps the runners or GitLab.",
    lines=compile_patterns(
        r"^fatal: unable to access '.{1,400}': (?:Failed to connect|Connection timed out"
        r"|Recv failure|Operation timed out|The requested URL returned error: 50\d"
        r"|SSL_ERROR_SYSCALL|OpenSSL SSL_connect)",
        r"^(?:error|fatal): RPC failed; (?:curl|HTTP) (?:\d{2} |50\d)",
    ),
    holds=Sight.fetches_repository,
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
        lines=(*_UNRESOLVED, *_UNFETCHED.lines),
    ),
)

_UNSCHEDULED = Rule(
    name="pod-unscheduled",
    cause="The job's pod was not started in time.{scheduler}",
    to_do="Retry later. If it goes on, tell whoever keeps the cluster.",
    lines=compile_patterns(r"timed out waiting for pod to start"),
    unless=compile_patterns(r"ImagePull|image pull|CrashLoop|CreateContainer"),
    # A job can ask for more than any node has, or for a node that there is not.
    doubtful=lambda sight: sight.may_change_configuration() or not sight.was_unschedulable(),
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

_RETRY = "Retry the job. If it goes on, tell whoever keeps GitLab and its runners."


def _make_infrastructure_rule(name: str, cause: str, to_do: str, *reasons: str) -> Rule:
    return Rule(
        name=name,
        cause=cause,
        to_do=to_do,
        reasons=frozenset(reasons),
        # The tags that select a runner are part of the configuration.
        doubtful=Sight.may_choose_runners,
    )


_REASONS = (
    Rule(
        name="ci-minutes",
        cause="The namespace has no compute minutes left, so GitLab ran no job.",
        to_do="Buy compute minutes, wait for the next month, or use your own runner.",
        reasons=frozenset({"ci_quota_exceeded"}),
    ),
    Rule(
        name="artifacts-gone",
        # Why they are gone, and for how long they are to be kept, is for people to say.
        verdict=Verdict.UNKNOWN,
        cause="The job needs the artifacts of an earlier job, and these have expired or were "
        "deleted (GitLab: missing_dependency_failure). Run by itself, the job fails again.",
        to_do="Run the earlier job again, then this one, or a new pipeline. If they expire too "
        "soon, raise `artifacts:expire_in`.",
        reasons=frozenset({"missing_dependency_failure"}),
    ),
    Rule(
        name="time-limit",
        # A change can make a job wait for ever, and so can a slow runner or a slow network.
        verdict=Verdict.UNKNOWN,
        cause="The job met its time limit and was ended. That alone tells nothing of the cause.",
        to_do="See what it did last, by its log, and how long it took when it last passed.",
        reasons=TIME_LIMITS,
        quoted_lines=compile_patterns(
            r"^ERROR: Job failed: execution took longer than",
            r"^ERROR: Job failed \(system failure\)",
        ),
    ),
    _make_infrastructure_rule(
        "no-runner",
        "No runner can take the job: none is online that has its tags and may run it. {tags}",
        "See whether a runner that may take it is online, not paused, and enabled for the "
        "project; then run the job again.",
        *NO_RUNNER,
    ),
    replace(
        _make_infrastructure_rule(
            "stuck",
            "No runner took the job in time. {tags}",
            "See whether the runners that may take it are online and have room, then run the job "
            "again.",
            *WAITED,
        ),
        has_started=False,
    ),
    Rule(
        name="runner-lost",
        # The runner's machine may have died of the job, as when its memory was used up.
        verdict=Verdict.UNKNOWN,
        cause="A runner took the job, and then GitLab heard no more of it. Its machine may have "
        "been stopped, or may have died of what the job did.",
        to_do="See what the log says last, and ask whoever keeps the runners what became of this "
        "one.",
        reasons=LOST,
        has_started=True,
    ),
    _make_infrastructure_rule(
        "runner-not-provided",
        "The machine that should run the job did not come up in time. {tags}",
        _RETRY,
        "runner_provisioning_timeout",
    ),
    _make_infrastructure_rule(
        "scheduler", "GitLab could not hand the job to a runner.", _RETRY, "scheduler_failure"
    ),
    _make_infrastructure_rule(
        "api", "GitLab's own interface failed while the job ran.", _RETRY, "api_failure"
    ),
    _make_infrastructure_rule(
        "data-integrity",
        "GitLab found its record of the job damaged.",
        "Run a new pipeline. If it goes on, tell whoever keeps GitLab.",
        "data_integrity_failure",
    ),
    _make_infrastructure_rule(
        "runner-too-old",
        "The runner{runner} is too old for what the job asks of it.",
        "Tell whoever keeps the runners to update them, or tag the job for a newer one. {tags}",
        "runner_unsupported",
    ),
    Rule(
        name="container-died",
        # The job may have used up the memory or the disk that it was given.
        verdict=Verdict.UNKNOWN,
        cause="The runner says that the job's container was ended from outside. The job may have "
        "used more memory or disk than it is given, or its machine was needed for others.",
        to_do="See what the job did last, and whether it needs more than when it last passed; ask "
        "whoever keeps the runner{runner} for its limits.",
        reasons=frozenset({"runner_system_failure", "runner_interrupted", "unknown_failure"}),
        lines=CONTAINER_END,
        unless=NOT_THE_JOB,
    ),
    Rule(
        name="runner-stopped",
        cause="The runner{runner} was stopped while the job ran (GitLab: runner_interrupted).",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners.",
        reasons=frozenset({"runner_interrupted"}),
        quoted_lines=LAST_WORDS,
    ),
    Rule(
        name="runner-refused",
        # Whose setting has to be altered, and whether the change needs it, no line tells.
        verdict=Verdict.UNKNOWN,
        cause="The runner{runner} asked for something on the job's behalf and was refused: a "
        "right, a token, a quota or a name may be wrong.{secret}",
        to_do="See what was refused, and which setting of the project, the job or the runner asks "
        "for it.",
        reasons=frozenset({"runner_system_failure", "runner_external_dependency_failure"}),
        lines=compile_patterns(
            r"^(?:ERROR|WARNING): .{0,800}(?:permission denied|unauthori[sz]ed|\bforbidden\b"
            r"|access ?denied|permissiondenied|\bcode:? 40[0-4]\b|exceeded quota|not allowed"
            r"|\bnot found\b|could not be found|not exist|\binvalid\b)"
        ),
    ),
    Rule(
        name="runner-settings",
        verdict=Verdict.UNKNOWN,
        cause="The runner{runner} cannot do what its own settings or the job's ask of it.",
        to_do="See what the runner says, and which setting it means: the job's, or the runner's.",
        reasons=frozenset({"runner_configuration_error"}),
        quoted_lines=LAST_WORDS,
    ),
    Rule(
        name="runner-system-failure",
        cause="The job ended outside its script: the runner{runner} could not go on.{secret}",
        to_do="Give the line above to whoever keeps the runners. Retry only if it looks passing.",
        reasons=frozenset({"runner_system_failure", "runner_external_dependency_failure"}),
        quoted_lines=LAST_WORDS,
        doubtful=Sight.may_be_the_job,
    ),
)

RULES: tuple[Rule, ...] = (
    # The runner tells the same twice, as a warning and as an error, and cuts either.
    *(
        replace(rule, choose=lambda found: max(found, key=lambda line: len(line[1])))
        for rule in _REGISTRY
    ),
    *_DISK,
    *_REPOSITORY,
    _UNSCHEDULED,
    _NEVER_BEGAN,
    *_REASONS,
)
"""The last one covers any other failure of the runner."""
