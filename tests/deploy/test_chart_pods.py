"""The chart with `engine.mode: pods`: who may start sandboxes, and what holds them in."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.kubernetes.cluster import LABELS, PodSettings, make_manifest
from sandbox.spec import ContainerSpec
from tests.deploy.chart import Manifest, Pod, Values, of_kind, pods, render, run, selects
from tests.deploy.matrix import BASE, MATRIX
from tests.simulators.kubernetes.admission import check_pod
from tests.simulators.kubernetes.schema import find_fault
from worker import settings as settings_module

pytestmark = pytest.mark.timeout(900)

HERE, ELSEWHERE = MATRIX["pods"], MATRIX["pods elsewhere"]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
STARTERS = {"worker", "sweep", "analyze", "test"}
"""The components that start sandboxes, or remove what is left of them."""


def one(values: Values, kind: str, suffix: str = "-sandboxes") -> Manifest:
    (found,) = (
        each for each in of_kind(render(values), kind) if each["metadata"]["name"].endswith(suffix)
    )
    return found


def component(of: Pod) -> str:
    return of.labels["app.kubernetes.io/component"]


def configured(values: Values) -> Any:
    text = one(values, "ConfigMap", "sandpiper")["data"]["sandpiper.yaml"]
    return yaml.safe_load(text)["sandbox"]


def test_no_pod_of_the_release_is_privileged() -> None:
    for values in (HERE, ELSEWHERE):
        for each in pods(render(values)):
            for container in each.containers:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["name"] not in ("engine", "sandbox-image")


@pytest.mark.parametrize(("values", "namespace"), [(HERE, "team"), (ELSEWHERE, "untrusted")])
def test_the_role_is_for_pods_in_one_namespace(values: Values, namespace: str) -> None:
    role, binding = one(values, "Role"), one(values, "RoleBinding")
    assert {each["metadata"]["namespace"] for each in (role, binding)} == {namespace}
    rights = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert rights == {
        "pods": ["create", "get", "list", "patch", "delete"],
        "pods/exec": ["create", "get"],
    }
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("r-sandpiper", "team")
    assert of_kind(render(values), "ClusterRole") == []


def test_the_token_is_only_where_sandboxes_are_started() -> None:
    for values in (HERE, ELSEWHERE):
        holding = {
            component(each)
            for each in pods(render(values))
            for container in each.containers
            if any(mount["mountPath"] == ACCOUNT for mount in container.get("volumeMounts", ()))
            or each.spec.get("automountServiceAccountToken") is not False
        }
        assert holding <= STARTERS
        assert "worker" in holding


def test_without_pods_there_is_no_token_and_no_role() -> None:
    assert of_kind(render(BASE), "Role") == []
    assert "serviceAccountToken" not in json.dumps(render(BASE))


def test_sandboxes_are_closed_whatever_else_is_open() -> None:
    for values in (HERE, ELSEWHERE):
        policy = one(values, "NetworkPolicy")
        assert selects(policy["spec"]["podSelector"], LABELS)
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert set(policy["spec"]) == {"podSelector", "policyTypes"}
        others = [each for each in of_kind(render(values), "NetworkPolicy") if each != policy]
        assert not any(selects(each["spec"]["podSelector"], LABELS) for each in others)


def test_workers_reach_the_api_server_only_where_it_is_named() -> None:
    worker = one(HERE, "NetworkPolicy", "-worker")
    assert "10.0.0.1/32" in json.dumps(worker["spec"]["egress"])
    unnamed = {**HERE, "networkPolicy": {**HERE["networkPolicy"], "cluster": {"cidrs": None}}}
    done = run("template r", unnamed)
    assert "networkPolicy.cluster.cidrs: name the addresses" in done.stderr


def test_the_quota_counts_sandboxes_and_nothing_else() -> None:
    quota = one(HERE, "ResourceQuota")["spec"]
    assert quota == {"hard": {"pods": "50"}, "scopes": ["Terminating"]}
    assert of_kind(render(ELSEWHERE), "ResourceQuota") == []
    sandbox = make_manifest(ContainerSpec(), PodSettings(), "session", "owner")
    assert sandbox["spec"]["activeDeadlineSeconds"] > 0
    assert not any("activeDeadlineSeconds" in each.spec for each in pods(render(HERE)))


def test_the_settings_follow_from_the_values(tmp_path: Path) -> None:
    assert configured(HERE) == {
        "driver": "kubernetes",
        "namespace": "team",
        "pull_secrets": ["pull"],
    }
    assert configured(ELSEWHERE) == {
        "driver": "kubernetes",
        "namespace": "untrusted",
        "pull_secrets": ["theirs"],
        "runtime": "gvisor",
    }
    file = tmp_path / "sandpiper.yaml"
    file.write_text(yaml.safe_dump({"sandbox": configured(ELSEWHERE)}))
    assert settings_module.load(str(file), {}).sandbox.driver == "kubernetes"


def test_a_driver_in_the_config_is_refused() -> None:
    wrong = {**HERE, "config": {"sandbox": {"driver": "docker"}}}
    assert "config.sandbox.driver: engine.mode" in run("template r", wrong).stderr


def test_workers_find_no_docker_engine() -> None:
    for each in pods(render(HERE)):
        for container in each.containers:
            assert "DOCKER_HOST" not in json.dumps(container.get("env", []))


# --------------------------------------------------------------------------------- a sandbox's pod


@pytest.mark.parametrize("version", ["1.29", "1.36"])
def test_kubernetes_knows_every_field_of_a_sandbox(version: str) -> None:
    made = make_manifest(ContainerSpec(runtime="kata"), PodSettings(("pull",)), "session", "owner")
    assert find_fault(made, version) == ""
    check_pod(made, "team")
    assert made["spec"]["runtimeClassName"] == "kata"
    assert made["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_a_sandbox_has_limits_no_token_no_names_and_a_uid_of_its_own() -> None:
    made = [
        make_manifest(ContainerSpec(cpus=0.5), PodSettings(), "s", "o")["spec"] for _ in range(20)
    ]
    (container,) = made[0]["containers"]
    limits = {"memory": str(2 << 30), "cpu": "500m", "ephemeral-storage": "16Mi"}
    assert container["resources"]["limits"] == limits
    reserved = {"memory": str(512 << 20), "cpu": "50m", "ephemeral-storage": "16Mi"}
    assert container["resources"]["requests"] == reserved
    assert made[0]["automountServiceAccountToken"] is False
    assert made[0]["dnsPolicy"] == "None"
    assert len({each["securityContext"]["runAsUser"] for each in made}) > 15
