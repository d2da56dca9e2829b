"""What has a rule's words and another cause: at least three cases for each rule.

The words are those of tools, taken from public reports; what surrounds them is invented.
"""

from dataclasses import dataclass, replace

from tests.unit.verdict.rule_logs import (
    CI_TOUCHED,
    CLEAN,
    EXIT,
    FAILED,
    IMAGE_TOUCHED,
    PREPARING,
    SOURCES,
    STEP,
    after_script,
    at_pull,
    before_script,
    in_script,
    in_service,
    in_sources,
    job,
    pulled_before,
    pulled_later,
)
from worker.verdict.jobs import FailingJob
from worker.verdict.rules.rule import Scene

LIMIT = "toomanyrequests: You have reached your unauthenticated pull rate limit."
LOCKED = "toomanyrequests: too many failed login attempts for username or IP address"
ASSERTED = "E   AssertionError: assert 3 == 4\nFAILED tests/test_a.py::test_a\n"
OUT = "Checking out 4f0e2d1c as detached HEAD (ref is main)...\n"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A job that is none of a rule's, and why. `instead` is the rule that may be certain of it."""

    why: str
    job: FailingJob
    scene: Scene = CLEAN
    instead: str = ""


NAMED = Scene("group/app", "4f0e2d1c" * 5, ("versions.env",), "BUILDER=builder:1\nTAG=2.4.1\n")
DENIED = "denied: requested access to the resource is denied"
TIMEOUT = 'Error response from daemon: Get "https://quay.io/v2/": dial tcp: i/o timeout'
SIGNER = 'Get "https://quay.io/v2/": tls: x509: certificate signed by unknown authority'
PAST = "x509: certificate has expired or is not yet valid: current time 2026-11-20 is after 2026-11"
COMING = "x509: certificate has expired or is not yet valid: current time 2020-01-01 is before 2026"
FULL = "write /builds/a: no space left on device"
URL = "https://gitlab.example.com/group/app.git/"
UNRESOLVED = "Could not resolve host: gitlab.example.com"
PENDING = "timed out waiting for pod to start (last phase: Pending)"
CPU = '\tUnschedulable: "0/6 nodes are available: 6 Insufficient cpu."'

NEAR_MISSES: dict[str, tuple[NearMiss, ...]] = {
    "registry-rate-limit": (
        NearMiss("failed logins", at_pull(LOCKED)),
        NearMiss("a later pull made up for it", pulled_later(LIMIT)),
        NearMiss("a service says it", in_service(LIMIT)),
        NearMiss(
            "the change names the image",
            at_pull(LIMIT),
            replace(CI_TOUCHED, added_lines="image: x/builder"),
        ),
    ),
    "registry-rate-limit-in-script": (
        NearMiss("failed logins", in_script(f"docker: {LOCKED}")),
        NearMiss("a push, and its own limit", in_script("toomanyrequests: Rate exceeded")),
        NearMiss(
            "another pull made up for it",
            in_script(f"{LIMIT}\nStatus: Downloaded newer image for mirror/x"),
        ),
        NearMiss("the next command failed", in_script(f"{LIMIT}\n$ ./check")),
        NearMiss("the change touches the Dockerfile", in_script(LIMIT), IMAGE_TOUCHED),
    ),
    "registry-logins-locked": (
        NearMiss("the script signs in", in_script(LOCKED)),
        NearMiss("a limit of pulls", at_pull(LIMIT), instead="registry-rate-limit"),
        NearMiss("a test says it", in_script(f"{LOCKED}\n{ASSERTED}")),
    ),
    "registry-busy": (
        NearMiss("a program under test", in_script("429 Too Many Requests")),
        NearMiss("a later pull made up for it", pulled_later("429 Too Many Requests")),
        NearMiss("failed logins", at_pull(LOCKED)),
    ),
    "registry-unreachable": (
        NearMiss("the script pulls", in_script(TIMEOUT)),
        NearMiss("a later pull made up for it", pulled_later(TIMEOUT)),
        NearMiss("a service says it", in_service(TIMEOUT)),
        NearMiss("it is of the service's image", pulled_before(TIMEOUT), instead="image-pull"),
        NearMiss("the change names the image", at_pull(TIMEOUT), NAMED),
    ),
    "registry-untrusted": (
        NearMiss("the script's own server", in_script(f"curl: (60) {SIGNER}")),
        NearMiss("it has expired", at_pull(PAST), instead="registry-certificate-expired"),
        NearMiss(
            "it is of another host",
            at_pull("tls: x509: certificate is valid for a.example, not quay.io"),
        ),
    ),
    "registry-certificate-expired": (
        NearMiss("it is of the future", at_pull(COMING), instead="registry-certificate-early"),
        NearMiss("the script's own server", in_script(PAST)),
        NearMiss("a later pull made up for it", pulled_later(PAST)),
    ),
    "registry-certificate-early": (
        NearMiss("it has expired", at_pull(PAST), instead="registry-certificate-expired"),
        NearMiss("the script's own server", in_script(COMING)),
        NearMiss("the change names the registry", at_pull(COMING), CI_TOUCHED),
    ),
    "image-name": (
        NearMiss("the script runs docker", in_script("docker: invalid reference format.")),
        NearMiss(
            "a file of sed", in_script("sed: -e expression #1: invalid reference \\1 on s command")
        ),
        NearMiss(
            "the name is valid, the tag is not there",
            at_pull("manifest unknown"),
            instead="image-pull",
        ),
    ),
    "registry-denied": (
        NearMiss("the project's own image", at_pull(DENIED, "r.example.com/group/app/x:1")),
        NearMiss("the script pushes", in_script(DENIED)),
        NearMiss("the change writes the tag", at_pull(DENIED, "quay.io/x/z:2.4.1"), NAMED),
        NearMiss("the change touches the configuration", at_pull(DENIED), CI_TOUCHED),
    ),
    "image-pull": (
        NearMiss(
            "not for this processor",
            at_pull("no matching manifest for linux/arm64/v8 in the manifest list entries"),
        ),
        NearMiss("no such platform", at_pull("no match for platform in manifest: not found")),
        NearMiss("the commit's own image", at_pull("manifest unknown", "quay.io/x/y:4f0e2d1c")),
        NearMiss(
            "the change writes the tag", at_pull("manifest unknown", "quay.io/x/z:2.4.1"), NAMED
        ),
    ),
    "image-pull-unexplained": (
        NearMiss(
            "the reason is told", at_pull("ErrImagePull: manifest unknown"), instead="image-pull"
        ),
        NearMiss("the script looks at its own pods", in_script("shop-0 0/1 ImagePullBackOff 0 2m")),
        NearMiss(
            "the network",
            at_pull("ErrImagePull: dial tcp: i/o timeout"),
            instead="registry-unreachable",
        ),
    ),
    "disk-full": (
        NearMiss(
            "cgroups",
            before_script(f"{FAILED} mkdir /sys/fs/cgroup/cpu/a: no space left on device"),
            instead="runner-system-failure",
        ),
        NearMiss(
            "the kernel's keys",
            before_script(
                f"{FAILED} join session keyring: create session key: disk quota exceeded"
            ),
            instead="runner-system-failure",
        ),
        NearMiss(
            "watches",
            before_script(f"{FAILED} failed to create fsnotify watcher: no space left on device"),
            instead="runner-system-failure",
        ),
        NearMiss("a service's own disk", in_service("initdb: error: No space left on device")),
        NearMiss(
            "a cache, which ends no job",
            job(f"{SOURCES}{OUT}Restoring cache\n{FULL}\nDownloading artifacts\nnot found\n{EXIT}"),
        ),
        NearMiss("the script had begun", after_script(FULL)),
    ),
    "disk-full-in-script": (
        NearMiss(
            "shared memory",
            in_script(
                "PG::DiskFull: could not resize shared memory segment: No space left on device"
            ),
        ),
        NearMiss(
            "watches", in_script("inotify_add_watch(/builds) failed: No space left on device")
        ),
        NearMiss("it went on", in_script(f"{FULL}\nbuild succeeded\n$ ./check")),
        NearMiss("a test of it", in_script(f"OSError: No space left on device\n{ASSERTED}")),
    ),
    "repository-unreachable": (
        NearMiss(
            "a right",
            in_sources(f"fatal: unable to access '{URL}': The requested URL returned error: 403"),
        ),
        NearMiss(
            "a submodule",
            in_sources(
                f"{OUT}fatal: unable to access '{URL}': The requested URL returned error: 502"
            ),
        ),
        NearMiss(
            "another repository",
            in_sources(
                "fatal: unable to access 'https://c.example/y.git/': Failed to connect to c.example"
            ),
        ),
        NearMiss(
            "files of LFS after the checkout",
            in_sources(f"{OUT}error: RPC failed; HTTP 504 curl 22"),
        ),
    ),
    "repository-host-unknown": (
        NearMiss(
            "a submodule of a mistyped host",
            in_sources(
                f"{OUT}fatal: unable to access 'https://gitlab.exmaple.com/a.git/': {UNRESOLVED}"
            ),
        ),
        NearMiss(
            "another repository",
            in_sources(
                f"fatal: unable to access 'https://gitlab.example.com/x/y.git/': {UNRESOLVED}"
            ),
        ),
        NearMiss("the script clones", in_script(f"fatal: unable to access '{URL}': {UNRESOLVED}")),
    ),
    "other-repository-unreachable": (
        NearMiss(
            "the project itself",
            in_sources(f"Fetching changes\nfatal: unable to access '{URL}': {UNRESOLVED}"),
            instead="repository-host-unknown",
        ),
        NearMiss(
            "the script clones",
            in_script(f"fatal: unable to access 'https://x.example/a.git/': {UNRESOLVED}"),
        ),
        NearMiss(
            "a right",
            in_sources(f"{OUT}fatal: unable to access 'https://x.example/a': returned error: 403"),
        ),
    ),
    "pod-unscheduled": (
        NearMiss(
            "no node is of that kind",
            before_script(
                f"\tUnschedulable: 6 node(s) didn't match Pod's node affinity\n{FAILED} {PENDING}"
            ),
        ),
        NearMiss(
            "the change may ask for more", before_script(f"{CPU}\n{FAILED} {PENDING}"), CI_TOUCHED
        ),
        NearMiss(
            "it was scheduled in the end",
            before_script(f"{CPU}\n\tContainersNotReady: unready: [build]\n{FAILED} {PENDING}"),
        ),
    ),
    "script-never-began": (
        NearMiss("it began", in_script("error: no such option: --x")),
        NearMiss(
            "the runner's own failure",
            before_script(f"error: x\n{FAILED} aborted"),
            instead="runner-system-failure",
        ),
        NearMiss("a log that is not a runner's", job("error: a\nERROR: Job failed: exit code 1\n")),
    ),
    "container-died": (
        NearMiss(
            "its node was emptied",
            after_script('pod "ci/a" is disrupted: reason "EvictionByEvictionAPI"'),
            instead="runner-system-failure",
        ),
        NearMiss(
            "more urgent pods",
            after_script('pod "ci/a" is disrupted: reason "PreemptionByScheduler"'),
            instead="runner-system-failure",
        ),
        NearMiss(
            "the script's own exit code", job(f"{STEP}Killed\nERROR: Job failed: exit code 137\n")
        ),
    ),
    "runner-refused": (
        NearMiss("the script's own right", in_script("permission denied")),
        NearMiss(
            "the server is away",
            before_script(f"{FAILED} resolving secrets: dial tcp: i/o timeout"),
            instead="runner-system-failure",
        ),
        NearMiss("the image", at_pull(DENIED), instead="registry-denied"),
    ),
    "runner-stopped": (
        NearMiss("by its name in the script", in_script("runner_interrupted")),
        NearMiss(
            "its container died",
            job(f"{STEP}{FAILED} exit code: 137, reason: 'OOMKilled'\n", "runner_interrupted"),
        ),
        NearMiss(
            "an older runner's words",
            after_script("aborted: terminated"),
            instead="runner-system-failure",
        ),
    ),
    "runner-settings": (
        NearMiss(
            "an older runner's words",
            before_script(f"{FAILED} the configured shell is unknown"),
            instead="runner-system-failure",
        ),
        NearMiss("the script's own settings", in_script("invalid configuration")),
        NearMiss(
            "the image's name",
            before_script(f"{FAILED} couldn't parse image name", "runner_configuration_error"),
        ),
    ),
    "runner-system-failure": (
        NearMiss(
            "memory", after_script("Error in container build: exit code: 137, reason: 'OOMKilled'")
        ),
        NearMiss(
            "the job's own use of its node's disk",
            after_script(
                'pod "ci/a" is disrupted: reason "TerminationByKubelet", low on resource: disk'
            ),
        ),
        NearMiss(
            "the container went away",
            before_script(f'{FAILED} unable to upgrade connection: container not found ("build")'),
        ),
        NearMiss(
            "a quota",
            before_script(
                f'{FAILED} setting up build pod: pods "a" is forbidden: exceeded quota: ci'
            ),
        ),
        NearMiss(
            "an image", before_script(f"{FAILED} failed to pull image: for a reason of its own")
        ),
        NearMiss("the change may set a variable", before_script(f"{FAILED} x"), CI_TOUCHED),
    ),
    "time-limit": (
        NearMiss("the script's own limit", in_script("timeout: the monitored command dumped core")),
        NearMiss("a test says it", in_script(f"execution took longer than 1h0m0s\n{ASSERTED}")),
        NearMiss(
            "the runner was stopped",
            job(f"{STEP}ERROR: Job failed: aborted\n", "runner_interrupted"),
            instead="runner-stopped",
        ),
    ),
    "no-runner": (
        NearMiss("the change may set the tags", job("", "no_matching_runner"), CI_TOUCHED),
        NearMiss(
            "not known what it changes", job("", "no_matching_runner"), Scene(changed_paths=None)
        ),
        NearMiss(
            "they have no room",
            replace(job("", "stuck_pending_with_matching_runners"), end=(), has_started=False),
            instead="stuck",
        ),
    ),
    "stuck": (
        NearMiss("it ran", job(f"{STEP}tests\n", "stuck_or_timeout_failure")),
        NearMiss(
            "a runner took it and prepared it",
            job(PREPARING.format(image="x"), "stuck_or_timeout_failure"),
        ),
        NearMiss(
            "a runner took it; its log is not read",
            replace(job("", "stuck_or_timeout_failure"), end=(), read=False),
        ),
    ),
    "runner-lost": (
        NearMiss(
            "no runner took it",
            replace(job("", "stuck_or_timeout_failure"), end=(), has_started=False),
            instead="stuck",
        ),
        NearMiss(
            "the runner was stopped",
            job(f"{STEP}{FAILED} aborted\n", "runner_interrupted"),
            instead="runner-stopped",
        ),
        NearMiss(
            "the script lost a connection", in_script("Connection to web closed by remote host.")
        ),
    ),
    "runner-not-provided": (
        NearMiss(
            "the change may choose the machine", job("", "runner_provisioning_timeout"), CI_TOUCHED
        ),
        NearMiss("the script waits for a machine", in_script("timed out waiting for the machine")),
        NearMiss(
            "not known what it changes",
            job("", "runner_provisioning_timeout"),
            Scene(changed_paths=None),
        ),
    ),
    "runner-too-old": (
        NearMiss("the change may ask for something new", job("", "runner_unsupported"), CI_TOUCHED),
        NearMiss("the script's own tool", in_script("this version is not supported any more")),
        NearMiss(
            "not known what it changes", job("", "runner_unsupported"), Scene(changed_paths=None)
        ),
    ),
    "scheduler": (
        NearMiss(
            "the change may set what cannot be read", job("", "scheduler_failure"), CI_TOUCHED
        ),
        NearMiss(
            "the cluster's scheduler",
            before_script(f"{CPU}\n{FAILED} {PENDING}"),
            instead="pod-unscheduled",
        ),
        NearMiss("the script's own scheduler", in_script("scheduler_failure")),
    ),
    "api": (
        NearMiss(
            "the script asks GitLab", in_script("curl: (22) The requested URL returned error: 500")
        ),
        NearMiss("the change may set what cannot be read", job("", "api_failure"), CI_TOUCHED),
        NearMiss(
            "the artifacts",
            job(f"{STEP}ERROR: Uploading artifacts... 500 Internal Server Error\n{EXIT}"),
        ),
    ),
    "data-integrity": (
        NearMiss("a checksum in the script", in_script("npm error code EINTEGRITY")),
        NearMiss(
            "the change may have an odd configuration",
            job("", "data_integrity_failure"),
            CI_TOUCHED,
        ),
        NearMiss("a database's integrity", in_script("IntegrityError: NOT NULL constraint failed")),
    ),
    "ci-minutes": (
        NearMiss("the script's own quota", in_script("quota exceeded: no minutes left")),
        NearMiss("a disk's quota", in_script("Disk quota exceeded")),
        NearMiss("the runner's quota", before_script(f"{FAILED} exceeded quota: ci")),
    ),
    "artifacts-gone": (
        NearMiss(
            "the script misses a file",
            in_script("cp: cannot stat 'dist/app.js': No such file or directory"),
        ),
        NearMiss(
            "the download failed",
            in_sources(
                "Downloading artifacts\nERROR: Downloading artifacts from coordinator... error: 503"
            ),
        ),
        NearMiss(
            "nothing matched what is to be kept",
            job(f"{STEP}WARNING: dist: no matching files\nERROR: No files to upload\n{EXIT}"),
        ),
    ),
}
