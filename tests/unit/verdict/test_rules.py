"""Causes that are plain without a model: real-shaped logs, and what must not be taken for one."""

from dataclasses import replace

import pytest

from tests.law.house import agree
from tests.unit.verdict.rule_logs import (
    AFTER,
    CI_TOUCHED,
    CLEAN,
    IMAGE_TOUCHED,
    PREPARING,
    STEP,
    YAML_TOUCHED,
    job,
    pull,
)
from tests.unit.verdict.rule_near_misses import NEAR_MISSES, NearMiss
from worker.verdict.facts import BY_ITSELF, NEVER_THE_CHANGE, TIME_LIMITS, UNLESS_CONFIGURED
from worker.verdict.jobs import FailingJob
from worker.verdict.rules import RULES, recognise
from worker.verdict.rules.rule import SHOWN, Scene
from worker.verdict.verdict import Verdict

HERE = "tests/unit/verdict/test_rules.py"
RECOGNISED = [
    ("ci-minutes", job("", "ci_quota_exceeded")),
    ("no-runner", job("", "no_matching_runner")),
    ("no-runner", job("", "stuck_pending_no_matching_runners")),
    ("stuck", replace(job("", "stuck_or_timeout_failure"), read=False, end=(), has_started=False)),
    (
        "stuck",
        replace(job("", "stuck_pending_with_matching_runners"), end=(), has_started=False),
    ),
    ("api", job("", "api_failure")),
    ("runner-not-provided", job("", "runner_provisioning_timeout")),
    (
        "runner-stopped",
        job(f"{STEP}building\nERROR: Job failed: interrupted", "runner_interrupted"),
    ),
    ("scheduler", job("", "scheduler_failure")),
    ("data-integrity", job("", "data_integrity_failure")),
    ("runner-too-old", job("", "runner_unsupported")),
    (
        "registry-rate-limit",
        job(
            pull(
                "Error response from daemon: toomanyrequests: You have reached your "
                "unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"
            ),
            "runner_system_failure",
        ),
    ),
    (
        "registry-unreachable",
        job(
            pull(
                'Error response from daemon: Get "https://registry.example.com/v2/": dial tcp: '
                "lookup registry.example.com on 10.0.0.2:53: no such host"
            )
        ),
    ),
    (
        "registry-unreachable",
        job(
            pull(
                'Error response from daemon: Head "https://quay.io/v2/x/y/manifests/1": '
                "received unexpected HTTP status: 502 Bad Gateway"
            ),
            "runner_system_failure",
        ),
    ),
    (
        "registry-certificate-expired",
        job(
            pull(
                'Error response from daemon: Get "https://registry.example.com/v2/": tls: failed '
                "to verify certificate: x509: certificate has expired or is not yet valid: current "
                "time 2026-11-20T09:00:00Z is after 2026-11-19T23:59:59Z"
            ),
            "image_pull_failure",
        ),
    ),
    (
        "registry-certificate-early",
        job(
            pull(
                'Error response from daemon: Get "https://registry.example.com/v2/": tls: failed '
                "to verify certificate: x509: certificate has expired or is not yet valid: current "
                "time 2020-01-01T00:07:13Z is before 2026-09-14T00:00:00Z"
            ),
            "image_pull_failure",
        ),
    ),
    (
        "registry-untrusted",
        job(
            f"{PREPARING.format(image='registry.example.com/x/y:1')}"
            "ERROR: Job failed: prepare environment: waiting for pod running: pulling image "
            '"registry.example.com/x/y:1": image pull failed: Failed to pull image: failed to do '
            'request: Head "https://registry.example.com/v2/x/y/manifests/1": tls: failed to '
            "verify certificate: x509: certificate signed by unknown authority\n",
            "runner_system_failure",
        ),
    ),
    (
        "image-pull",
        job(
            pull("Error response from daemon: manifest for python:3.99 not found: manifest unknown")
        ),
    ),
    (
        "registry-denied",
        job(
            pull(
                "Error response from daemon: pull access denied for x/y, repository does not exist "
                "or may require 'docker login': denied: requested access is denied"
            ),
            "image_pull_failure",
        ),
    ),
    (
        "registry-busy",
        job(
            pull(
                'Error response from daemon: Head "https://quay.io/v2/x/y/manifests/1": unexpected '
                "status from HEAD request: 429 Too Many Requests"
            ),
            "runner_system_failure",
        ),
    ),
    (
        "pod-unscheduled",
        job(
            "Running with gitlab-runner 18.5.0\nPreparing environment\n"
            "Waiting for pod ci/runner-1 to be running, status is Pending\n"
            '\tUnschedulable: "0/6 nodes are available: 6 Insufficient cpu."\n'
            "ERROR: Job failed (system failure): prepare environment: waiting for pod running: "
            "timed out waiting for pod to start (last phase: Pending).\n",
            "runner_system_failure",
        ),
    ),
    (
        "disk-full",
        job(
            f"{PREPARING.format(image='alpine')}"
            "ERROR: Job failed (system failure): Error response from daemon: mkdir "
            "/var/lib/docker/overlay2/ab12: no space left on device (docker.go:570:0s)\n",
            "runner_system_failure",
        ),
    ),
    (
        "registry-rate-limit-in-script",
        job(
            f"{STEP}#2 [internal] load metadata for docker.io/library/alpine:3.20\n"
            "#2 ERROR: toomanyrequests: You have reached your unauthenticated pull rate limit.\n"
            f"{AFTER}"
        ),
    ),
    (
        "repository-unreachable",
        job(
            "Running with gitlab-runner 18.5.0\nGetting source from Git repository\n"
            "error: RPC failed; curl 56 Recv failure: Connection reset by peer\n"
            "fatal: early EOF\nERROR: Job failed: exit code 128\n"
        ),
    ),
    (
        "repository-host-unknown",
        job(
            "Running with gitlab-runner 18.5.0\nGetting source from Git repository\n"
            "fatal: unable to access 'https://gitlab.example.com/group/app.git/': Could not "
            "resolve host: gitlab.example.com\nERROR: Job failed: exit code 128\n"
        ),
    ),
    (
        "runner-system-failure",
        job(
            f"{STEP}building\n"
            'ERROR: Job failed (system failure): pod "runner-x/runner-abc" is disrupted: reason '
            '"EvictionByEvictionAPI"\n',
            "runner_system_failure",
        ),
    ),
]


LEADS = [
    (
        "time-limit",
        job(
            f"{STEP}tests/test_slow.py::test_a PASSED\n"
            "ERROR: Job failed: execution took longer than 1h0m0s seconds\n",
            "job_execution_timeout",
        ),
    ),
    *(("time-limit", job("", reason)) for reason in sorted(TIME_LIMITS)),
    ("artifacts-gone", job("", "missing_dependency_failure")),
    ("runner-settings", job("", "runner_configuration_error")),
    ("runner-lost", job("", "no_updates_running")),
    ("runner-lost", job("", "no_updates_canceling")),
    ("runner-lost", job(f"{STEP}tests/test_a.py\n", "stuck_or_timeout_failure")),
    (
        "registry-logins-locked",
        job(pull("toomanyrequests: too many failed login attempts for username or IP address")),
    ),
    (
        "image-name",
        job(pull('couldn\'t parse image name "registry.example.com/x:": invalid reference format')),
    ),
    (
        "image-pull-unexplained",
        job(
            f"{PREPARING.format(image='quay.io/x/y:1')}"
            "ERROR: Job failed: prepare environment: waiting for pod running: pulling image "
            '"quay.io/x/y:1": image pull failed: Back-off pulling image "quay.io/x/y:1": '
            "ErrImagePull\n",
            "runner_system_failure",
        ),
    ),
    (
        "other-repository-unreachable",
        job(
            "Running with gitlab-runner 18.5.0\nGetting source from Git repository\n"
            "Checking out 4f0e2d1c as detached HEAD (ref is main)...\n"
            "fatal: unable to access 'https://code.example/x/y.git/': Could not resolve host: "
            "code.example\nERROR: Job failed: exit code 128\n"
        ),
    ),
    (
        "script-never-began",
        job(
            "Running with gitlab-runner 18.5.0\nGetting source from Git repository\n"
            "fatal: reference is not a tree: 4f0e2d1c\nERROR: Job failed: exit code 128\n"
        ),
    ),
    (
        "container-died",
        job(
            f"{STEP}building\nERROR: Job failed (system failure): Error in container build: "
            "exit code: 137, reason: 'OOMKilled'\n",
            "runner_system_failure",
        ),
    ),
    (
        "container-died",
        job(
            f'{STEP}building\nERROR: Job failed (system failure): pod "ci/runner-1" is disrupted: '
            'reason "TerminationByKubelet", message "The node was low on resource: '
            'ephemeral-storage."\n',
            "runner_system_failure",
        ),
    ),
    (
        "runner-refused",
        job(
            "Running with gitlab-runner 18.5.0\nResolving secrets\n"
            "ERROR: Job failed (system failure): resolving secrets: reading secret: api error: "
            "status code 403: permission denied\n",
            "runner_system_failure",
        ),
    ),
    (
        "disk-full-in-script",
        job(f"{STEP}cp: error writing '/builds/g/app/all.tar': No space left on device\n{AFTER}"),
    ),
    (
        "disk-full-in-script",
        job(
            f"{STEP}fatal error: error writing to /tmp/ccA1b2.s: No space left on device\n"
            f"compilation terminated.\nmake: *** [Makefile:10: foo.o] Error 1\n{AFTER}"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "failing"), RECOGNISED)
def test_a_plain_cause_is_recognised_for_certain(rule: str, failing: FailingJob) -> None:
    ruled = recognise(failing, CLEAN)
    assert ruled is not None
    assert (ruled.rule, ruled.certain) == (rule, True)
    if ruled.line:
        text = dict(failing.end)[ruled.line]
        assert ruled.text in text


@pytest.mark.parametrize(("rule", "failing"), LEADS)
def test_a_rule_that_does_not_know_whose_fault_it_is_is_a_lead_only(
    rule: str, failing: FailingJob
) -> None:
    ruled = recognise(failing, CLEAN)
    assert ruled is not None
    assert (ruled.rule, ruled.verdict, ruled.certain) == (rule, "unknown", False)


def test_a_long_lines_quote_holds_what_the_rule_has_matched() -> None:
    words = "x" * 150 + " no such layer " + "y" * 150 + ": manifest unknown"
    ruled = recognise(job(pull(words)), CLEAN)
    assert ruled is not None
    assert "manifest unknown" in ruled.text
    assert len(ruled.text) <= 2 * SHOWN


def test_a_rule_names_what_is_at_hand() -> None:
    waits = replace(job("", "no_matching_runner"), tags=("gpu`@all", "linux"), end=())
    named = recognise(waits, CLEAN)
    assert named is not None
    assert "The job's tags are `gpu@all`, `linux`." in named.cause.replace("gpuall", "gpu@all")
    away = recognise(
        job(pull('Error response from daemon: Get "https://r.example:5000/v2/": i/o timeout')),
        CLEAN,
    )
    assert away is not None
    assert "the registry `r.example:5000` to get the image `docker.io/library/python:3.12`" in (
        away.cause
    )


def test_the_fuller_of_two_lines_about_an_image_is_quoted_and_the_image_named() -> None:
    warning = 'WARNING: Failed to pull image with policy "always": denied: ' + "a" * 150
    log = PREPARING.format(image="r.example/x:1") + warning
    failed = (
        'ERROR: Job failed: failed to pull image "r.example/x:1" with specified policies: denied'
    )
    ruled = recognise(job(f"{log}\n{failed}\n"), CLEAN)
    assert ruled is not None
    assert ruled.text == warning
    assert "the image `r.example/x:1`" in ruled.cause


def test_every_rule_has_a_case() -> None:
    shown = {rule for rule, _ in [*RECOGNISED, *LEADS]}
    assert agree({rule.name for rule in RULES}, shown, f"RECOGNISED or LEADS in {HERE}, with a log")


UNKNOWN = {
    "a test prints it and fails by an assertion": job(
        f"{STEP}No space left on device\nE   AssertionError: assert 3 == 4\n"
        f"FAILED tests/test_disk.py::test_full\n{AFTER}"
    ),
    "a test of a full disk fails": job(
        f"{STEP}FAILED tests/test_disk.py::test_full - OSError: No space left on device\n{AFTER}"
    ),
    "the test fails far above, the disk error is only the last line": job(
        f"{STEP}writing cache: No space left on device\n{AFTER}",
        excerpt="12: --- FAIL: TestTotal (0.00s)\n13:     total_test.go:9: expected 3, got 4",
    ),
    "another error follows": job(
        f"{STEP}cache: No space left on device\n"
        f"error: linking with `cc` failed: exit status 1\n{AFTER}"
    ),
    "it was long before the end": job(
        f"{STEP}tar: cache: No space left on device\n" + "compiling\n" * 20 + f"done\n{AFTER}"
    ),
    "a script talks of a registry's limit in a sentence of a test": job(
        f"{STEP}test_limits: expected toomanyrequests: to be retried\n{AFTER}"
    ),
    "a script prints what a runner would": job(
        f'{STEP}ERROR: Job failed: failed to pull image "x": manifest unknown\n{AFTER}'
    ),
    "a script meets a certificate that has expired": job(
        f"{STEP}curl: (60) x509: certificate has expired or is not yet valid\n{AFTER}"
    ),
    "a script pulls an image of its own and does not trust the registry": job(
        f'{STEP}failed to pull image "x": x509: certificate signed by unknown authority\n{AFTER}'
    ),
    "a script cannot resolve a host of its own": job(
        f"{STEP}fatal: unable to access 'https://x.example/a.git/': Could not resolve host: x\n"
        f"{AFTER}"
    ),
    "a log that is not a runner's": job("cp: No space left on device\nE   assert 1\n"),
    "an old runner's log, where the commands tell that the script ran": job(
        "Running with gitlab-runner 11.0.0\n$ pytest\nNo space left on device\nE   assert 1\n"
    ),
    "an assertion and nothing else": job(f"{STEP}E   AssertionError: assert 3 == 4\n{AFTER}"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_a_near_miss_is_left_to_the_model(case: str) -> None:
    assert recognise(UNKNOWN[case], CLEAN) is None


@pytest.mark.parametrize(
    ("failing", "scene"),
    [
        (job("", "no_matching_runner"), CI_TOUCHED),
        (job("", "no_matching_runner"), YAML_TOUCHED),
        (job("", "runner_system_failure"), CI_TOUCHED),
        (job("", "runner_system_failure"), IMAGE_TOUCHED),
        (job("", "runner_system_failure"), Scene("group/app", "", None)),
        (job(pull("x509: certificate signed by unknown authority")), CI_TOUCHED),
        (job(pull("manifest unknown")), CI_TOUCHED),
        (job(pull("manifest unknown", "registry.example.com/group/app/test:1")), CLEAN),
        (job(pull("manifest unknown", "registry.example.com/other/base:4f0e2d1c")), CLEAN),
    ],
)
def test_a_cause_that_the_change_may_have_is_told_but_not_certain(
    failing: FailingJob, scene: Scene
) -> None:
    ruled = recognise(failing, scene)
    assert ruled is not None
    assert not ruled.certain


@pytest.mark.parametrize(
    ("rule", "near"),
    [
        pytest.param(rule, near, id=f"{rule}: {near.why}")
        for rule, some in NEAR_MISSES.items()
        for near in some
    ],
)
def test_what_only_has_a_rules_words_is_not_taken_for_its_cause(rule: str, near: NearMiss) -> None:
    ruled = recognise(near.job, near.scene)
    assert ruled is None or not ruled.certain or ruled.rule == near.instead
    leads = {each.name for each in RULES if each.verdict is Verdict.UNKNOWN}
    assert ruled is None or ruled.rule != rule or rule not in leads


def test_each_rule_has_three_near_misses() -> None:
    where = "NEAR_MISSES in tests/unit/verdict/rule_near_misses.py, with three cases"
    assert agree({rule.name for rule in RULES}, NEAR_MISSES, where)
    assert [rule for rule, some in NEAR_MISSES.items() if len(some) < 3] == []


OTHER_REASONS = [
    "archived_failure",
    "user_blocked",
    "project_deleted",
    "pipeline_loop_detected",
    "builds_disabled",
    "environment_creation_failure",
    "deployment_rejected",
    "failed_outdated_deployment_job",
    "forward_deployment_failure",
    "protected_environment_failure",
    "ip_restriction_failure",
    "insufficient_bridge_permissions",
    "insufficient_upstream_permissions",
    "invalid_bridge_trigger",
    "downstream_bridge_project_not_found",
    "upstream_bridge_project_not_found",
    "downstream_pipeline_creation_failed",
    "secrets_provider_not_found",
    "reached_max_descendant_pipelines_depth",
    "reached_max_pipeline_hierarchy_size",
    "reached_downstream_pipeline_trigger_rate_limit",
    "job_router_failure",
    "job_token_expired",
    "duo_workflow_not_allowed",
    "id_token_burned_project_path",
    "downstream_project_trigger_resolved_to_empty",
    "trace_size_exceeded",
    "one_of_gitlab_25",
]
"""Failure reasons that no rule is certain of: whose doing they are, GitLab does not say."""


@pytest.mark.parametrize("reason", OTHER_REASONS)
def test_a_reason_of_gitlabs_that_no_rule_looks_at_is_a_lead_and_proves_nothing(
    reason: str,
) -> None:
    found = recognise(job("", reason), Scene(changed_paths=("README.md",)))
    assert found is not None
    assert (found.certain, found.verdict) == (False, Verdict.UNKNOWN)
    assert reason in found.cause
    assert reason not in NEVER_THE_CHANGE | UNLESS_CONFIGURED


@pytest.mark.attack("door")
@pytest.mark.parametrize("reason", ["<b>x</b>", "a b", "@all", "x" * 200, *sorted(BY_ITSELF)])
def test_what_is_no_reason_of_gitlabs_is_no_lead(reason: str) -> None:
    assert recognise(job(f"{STEP}make\n", reason), Scene(changed_paths=("README.md",))) is None
