"""What a real cluster refuses, hides or lacks, as far as the manifests show it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from tests.clusters import Answer, Loopback, gone, ok
from tests.deploy.chart import (
    CHART,
    Manifest,
    Pod,
    Values,
    environment,
    of_kind,
    pod,
    pods,
    read_manifests,
    read_refusal,
    render,
    run,
)
from tests.deploy.matrix import BASE, CONFIG, MATRIX, SECRETS
from tests.flow.product import free_port

pytestmark = pytest.mark.timeout(900)


def container(of: Pod, name: str) -> Manifest:
    """A container by its name."""
    (found,) = (each for each in of.containers if each["name"] == name)
    return found


def jobs(values: Values) -> list[Manifest]:
    """The Jobs that are not made by a CronJob."""
    return of_kind(render(values), "Job")


# ----------------------------------------------------------------------------------------- upgrades


CHANGES: list[Values] = [
    {"image": {"tag": "0.1.1"}},
    {"image": {"tag": 20261123}},
    {"imagePullSecrets": [{"name": "other"}]},
    {"env": {"HTTPS_PROXY": "http://other:3128"}},
    {"caBundle": {"existingConfigMap": "other"}},
    {
        "sweep": {"resources": {"limits": {"memory": "1Gi"}}},
        "job": {"resources": {"limits": {"cpu": 1}}},
    },
    {"store": {"url": "s3://bucket/other"}},
    {"worker": {"nodeSelector": {"pool": "other"}}},
    {"serviceAccount": {"name": "robot"}},
    {"config": {**CONFIG, "limits": {"max_iterations": 7}}},
]


def test_a_job_with_another_pod_has_another_name() -> None:
    base = MATRIX["everything"]
    before = {each["metadata"]["name"]: each["spec"]["template"] for each in jobs(base)}
    assert len(before) == 2
    assert {each["metadata"]["name"] for each in jobs({**base, "nameOverride": ""})} == set(before)
    for change in CHANGES:
        merged = {**base, **change}
        for part in ("job", "worker"):
            merged[part] = {**base.get(part, {}), **change.get(part, {})}
        for each in jobs(merged):
            name, template = each["metadata"]["name"], each["spec"]["template"]
            assert before.get(name, template) == template, change
            assert name not in before, change


def test_the_log_of_a_test_that_succeeds_is_there_to_be_shown() -> None:
    tests = of_kind(render(BASE), "Pod")
    assert len(tests) == 2
    for each in tests:
        policy = each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation"


# ------------------------------------------------------------------------------------------- quotas


def test_every_container_has_resources_of_its_own_in_the_values() -> None:
    manifests = render(MATRIX["a quota"])
    limits = {
        f"{each.name}: {one['name']}": one["resources"]["limits"].get("cpu")
        for each in pods(manifests)
        for one in each.containers
    }
    assert len(limits) >= 10
    assert [name for name, cpu in limits.items() if not cpu] == []
    pull = {"requests": {"cpu": 1}, "limits": {"memory": "64Mi", "cpu": 2}}
    more = {"engine": {"sidecar": {"pull": {"resources": pull}}}, "tests": {"resources": pull}}
    changed = render({**BASE, **more})
    found = container(pod(changed, "worker"), "sandbox-image")["resources"]
    assert (found["requests"]["cpu"], found["limits"]["cpu"]) == (1, 2)
    for each in of_kind(changed, "Pod"):
        assert each["spec"]["containers"][0]["resources"]["limits"]["cpu"] == 2
    own = {"webhooks": {"fix": True, "resources": pull}, "receiver": MATRIX["webhooks"]["receiver"]}
    (job,) = jobs({**BASE, **own})
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == pull


# ---------------------------------------------------------------------------------------- readiness


def test_a_worker_is_asked_whether_it_takes_messages(tmp_path: Path) -> None:
    for name in ("least", "no metrics"):
        worker = container(pod(render(MATRIX[name]), "worker"), "worker")
        (given,) = (each for each in worker["args"] if each.startswith("--ready-file="))
        file = given.partition("=")[2]
        (folder,) = (each for each in worker["volumeMounts"] if each["mountPath"] == "/tmp")
        assert file.startswith(folder["mountPath"])
        here = tmp_path / name
        command = worker["readinessProbe"]["exec"]["command"]
        command = [each.replace(file, f"'{here}'") for each in command]
        assert str(here) in command[-1]

        def asked(command: list[str] = command) -> tuple[int, str]:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            return done.returncode, done.stdout

        assert asked() == (1, "takes no messages from the broker\n")
        here.touch()
        assert asked() == (0, "")
        long_ago = time.time() - 120
        os.utime(here, (long_ago, long_ago))
        assert asked()[0] == 1
        assert "ready" not in str(worker["livenessProbe"])


def test_pods_that_are_not_ready_keep_no_node_from_being_drained() -> None:
    budgets = of_kind(render(BASE), "PodDisruptionBudget")
    assert [each["spec"]["unhealthyPodEvictionPolicy"] for each in budgets] == ["AlwaysAllow"] * 2


# ------------------------------------------------------------------------------------------- engine


def test_an_engine_that_is_root_has_root_s_group() -> None:
    context = container(pod(render(MATRIX["dind"]), "worker"), "engine")["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (0, 0)


def test_the_engine_gets_proxies_certificates_and_further_arguments() -> None:
    values = {
        **BASE,
        "caBundle": {"existingConfigMap": "ca"},
        "env": {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8", "OTHER": 1000000},
        "engine": {"sidecar": {"extraArgs": ["--registry-mirror=https://mirror.example.com"]}},
    }
    worker = pod(render(values), "worker")
    engine = container(worker, "engine")
    given = environment(engine)
    assert (given["HTTPS_PROXY"], given["NO_PROXY"]) == ("http://proxy:3128", "10.0.0.0/8")
    assert "OTHER" not in given
    assert environment(container(worker, "worker"))["OTHER"] == "1000000"
    (mount,) = (each for each in engine["volumeMounts"] if each["name"] == "ca")
    assert given["SSL_CERT_FILE"] == f"{mount['mountPath']}/bundle.crt"
    assert engine["command"][-1] == "--registry-mirror=https://mirror.example.com"
    for wrong in ("--host=tcp://0.0.0.0:2375", "-H", "--data-root=/"):
        done = run("template r", {**BASE, "engine": {"sidecar": {"extraArgs": [wrong]}}})
        assert "engine.sidecar.extraArgs.0: " in read_refusal(done), wrong


# -------------------------------------------------------------------------------------------- Redis


def own_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_the_bundled_redis_answers_others_whoever_has_built_it(tmp_path: Path) -> None:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    _, *words = container(pod(render(BASE), "redis"), "redis")["args"]
    words[words.index("--dir") + 1] = str(tmp_path)
    port, address = free_port(), own_address()
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([program, *words, "--port", str(port)], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while b"Ready to accept connections" not in (tmp_path / "log").read_bytes():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        with redis.Redis(address, port, socket_timeout=5) as client:
            assert client.ping()
    finally:
        server.kill()
        server.wait(20)


def test_every_pod_has_an_account_and_pull_secrets() -> None:
    manifests = render(MATRIX["everything"])
    made = {each["metadata"]["name"]: each for each in of_kind(manifests, "ServiceAccount")}
    for each in pods(manifests):
        assert each.spec["serviceAccountName"] in made, each.name
        assert each.spec["imagePullSecrets"] == [{"name": "pull"}], each.name
    cloud = render(MATRIX["workload identity"])
    account = pod(cloud, "redis").spec["serviceAccountName"]
    (plain,) = (e for e in of_kind(cloud, "ServiceAccount") if e["metadata"]["name"] == account)
    assert "annotations" not in plain["metadata"]
    assert (
        pod(render(MATRIX["somebody's account"]), "redis").spec["serviceAccountName"] == "default"
    )
    own = {"enabled": True, "serviceAccountName": "cache", "imagePullSecrets": [{"name": "hub"}]}
    chosen = pod(render({**BASE, "redis": own}), "redis").spec
    assert (chosen["serviceAccountName"], chosen["imagePullSecrets"]) == (
        "cache",
        [{"name": "hub"}],
    )


# ------------------------------------------------------------------------------------------- values


def test_a_spread_without_a_selector_is_about_the_component_s_pods() -> None:
    def spread(*constraints: Manifest) -> list[Manifest]:
        worker = pod(
            render({**BASE, "worker": {"topologySpreadConstraints": constraints}}), "worker"
        )
        assert worker.spec["topologySpreadConstraints"][0]["maxSkew"] == 1
        found = [each["labelSelector"] for each in worker.spec["topologySpreadConstraints"]]
        assert found[0]["matchLabels"].items() <= worker.labels.items()
        return found

    zone = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    own = {"labelSelector": {"matchLabels": {"team": "ci"}}, **zone}
    found = spread(zone, own)
    assert found[0]["matchLabels"]["app.kubernetes.io/component"] == "worker"
    assert found[1] == own["labelSelector"]


def keys(values: Values) -> set[str]:
    """The secrets that a worker mounts."""
    worker = pod(render(values), "worker")
    (volume,) = (each for each in worker.spec["volumes"] if each["name"] == "secrets")
    files = {name for name in environment(container(worker, "worker")) if name.endswith("_FILE")}
    found = {each["path"] for each in volume["secret"]["items"]}
    assert files == {f"{name}_FILE" for name in found}
    return found


def _own_row(name: str, variable: str) -> Values:
    row = {"api": "anthropic", "base_url": "http://llm", "key_env": variable}
    return {"config": {"models": {"default": f"{name}/c", "providers": {name: row}}}}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, True),
        ({"config": {"models": {"default": "gemini/gemini-3-flash"}}}, False),
        ({"config": {"models": {"default": "anthropic-vertex/claude-sonnet-5-5"}}}, False),
        ({"config": {"models": {"default": "anthropic/claude-opus-5"}}}, True),
        ({"config": {"models": {"default": "gemini/g", "fallback": ["anthropic/c"]}}}, True),
        ({"config": {"models": {"default": "gemini/g", "helper": "anthropic/c"}}}, True),
        (
            {
                "config": {"models": {"default": "gemini/g"}},
                "env": {"SANDPIPER_MODEL": "anthropic/c"},
            },
            True,
        ),
        (_own_row("my-anthropic", "MY_KEY"), False),
        (_own_row("mine", "ANTHROPIC_API_KEY"), True),
    ],
)
def test_a_key_of_a_provider_that_is_not_asked_is_not_needed(values: Values, wanted: bool) -> None:
    assert ("ANTHROPIC_API_KEY" in keys({**BASE, **values})) is wanted


def test_a_key_that_somebody_has_named_is_mounted_whatever_the_model() -> None:
    own = {**SECRETS["secrets"], "worker": {"ANTHROPIC_API_KEY": "claude", "GEMINI_API_KEY": "g"}}
    values = {**MATRIX["another provider"], "secrets": own}
    assert keys(values) >= {"ANTHROPIC_API_KEY", "GEMINI_API_KEY"}


def test_numbers_may_be_given_by_set() -> None:
    given = {
        "env.DEPTH": "1234567890",
        "env.FLAG": "true",
        "image.tag": "20261123",
        "config.limits.cost_usd": "0.5",
        "config.retention.days": "1.5",
        "sweep.hours": "1.5",
        "autoscaling.kind": "hpa",
        "autoscaling.hpa.averageValue": "3",
        "worker.podAnnotations.port": "9090",
        "worker.nodeSelector.generation": "7",
        "worker.resources.limits.cpu": "2",
        "receiver.service.annotations.idle": "60",
    }
    options = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    done = run("template r", BASE, *options, "--kube-version", "1.34.0")
    assert done.returncode == 0, done.stderr
    manifests = read_manifests(done.stdout)
    worker = pod(manifests, "worker")
    assert environment(container(worker, "worker"))["DEPTH"] == "1234567890"
    assert environment(container(worker, "worker"))["FLAG"] == "true"
    assert container(worker, "worker")["image"] == "sandpiper:20261123"
    assert worker.spec["nodeSelector"] == {"generation": "7"}
    (deployment,) = (
        e for e in of_kind(manifests, "Deployment") if "worker" in e["metadata"]["name"]
    )
    assert deployment["spec"]["template"]["metadata"]["annotations"]["port"] == "9090"
    (scaler,) = of_kind(manifests, "HorizontalPodAutoscaler")
    assert scaler["spec"]["metrics"][0]["pods"]["target"]["averageValue"] == "3"
    wrong = run("template r", BASE, "--set", "config.limits.cost_usd=cheap")
    assert "config.limits.cost_usd: " in read_refusal(wrong)


def test_name_servers_may_listen_elsewhere() -> None:
    def served(values: Values) -> set[tuple[str, int]]:
        (policy,) = (
            each
            for each in of_kind(render(values), "NetworkPolicy")
            if each["metadata"]["name"].endswith("-worker")
        )
        return {(each["protocol"], each["port"]) for each in policy["spec"]["egress"][0]["ports"]}

    assert served(BASE) == {("UDP", 53), ("TCP", 53)}
    assert served(MATRIX["openshift"]) == {("UDP", 5353), ("TCP", 5353)}
    local = [{"ipBlock": {"cidr": "169.254.20.10/32"}}]
    policies = of_kind(
        render({**BASE, "networkPolicy": {**SECRETS["networkPolicy"], "dns": local}}),
        "NetworkPolicy",
    )
    assert any(local == rule["to"] for each in policies for rule in each["spec"].get("egress", ()))


def test_a_cluster_that_chooses_ids_itself_may() -> None:
    for each in pods(render(MATRIX["openshift"])):
        contexts = [
            each.spec["securityContext"],
            *(one["securityContext"] for one in each.containers),
        ]
        chosen = {"runAsUser", "runAsGroup", "fsGroup"} & {key for one in contexts for key in one}
        assert chosen == set(), each.name
    large = {"podSecurityContext": {"runAsUser": 1000730000, "fsGroup": 1000730000}}
    context = pod(render({**BASE, **large}), "worker").spec["securityContext"]
    assert (context["runAsUser"], context["supplementalGroups"]) == (1000730000, [1000])
    assert context["runAsNonRoot"] is True


def test_volumes_may_be_added() -> None:
    manifests = render(MATRIX["volumes of one's own"])
    for component in ("worker", "receiver", "sweep"):
        made = pod(manifests, component)
        assert "more" in {each["name"] for each in made.spec["volumes"]}
        assert "/etc/more" in {each["mountPath"] for each in made.containers[-1]["volumeMounts"]}


# ------------------------------------------------------------------------------------- missing keys


class Api(Loopback):
    """As much of a cluster as `helm template --dry-run=server` asks: one Secret."""

    def __init__(self, data: dict[str, str]) -> None:
        super().__init__()
        self._data = data

    def get(self, path: str, query: dict[str, str]) -> Answer:
        secrets: dict[str, Any] = {"name": "secrets", "singularName": "secret", "kind": "Secret"}
        made = {
            "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {
                "kind": "APIResourceList",
                "groupVersion": "v1",
                "resources": [{**secrets, "namespaced": True, "verbs": ["get", "list"]}],
            },
            "/api/v1/namespaces/team/secrets/sandpiper": {
                "kind": "Secret",
                "apiVersion": "v1",
                "metadata": {"name": "sandpiper", "namespace": "team"},
                "data": self._data,
            },
        }
        return ok(made[path]) if path in made else gone()


Notes = Callable[[Values, dict[str, str]], str]

SHOWN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ tpl (.Files.Get "NOTES.txt") . | quote }}}
"""
"""Only an installation shows the notes; here they are a manifest."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notes:
    """The notes of an installation where the Secret has these keys."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    copied = shutil.copytree(CHART, tmp_path / "chart")
    (copied / "templates/NOTES.txt").rename(copied / "NOTES.txt")
    (copied / "templates/notes.yaml").write_text(SHOWN)

    def show(values: Values, data: dict[str, str]) -> str:
        with Api(data) as api:
            done = run(
                "template r",
                values,
                *("-n", "team", "--dry-run=server", "--kube-apiserver", api.url),
                *("--show-only", "templates/notes.yaml"),
                chart=copied,
            )
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["data"]["notes"])

    return show


def test_the_notes_say_which_secrets_and_keys_are_missing(notes: Notes) -> None:
    every = dict.fromkeys(
        ("GITLAB_READ_TOKEN", "GITLAB_WRITE_TOKEN", "GITLAB_WEBHOOK_SECRET", "ANTHROPIC_API_KEY"),
        "",
    )
    assert "MISSING" not in notes(BASE, every)
    told = notes(BASE, {"GITLAB_READ_TOKEN": ""})
    lacking = [line.strip() for line in told.splitlines() if line.startswith("  - ")]
    assert lacking == [
        f"- the key {name} of the Secret sandpiper"
        for name in sorted(set(every) - {"GITLAB_READ_TOKEN"})
    ]
    assert "the Secret rabbit" in notes(MATRIX["a broker by secret"], every)
    quiet = {**BASE, "secrets": {"existingSecret": "sandpiper", "check": False}}
    assert "MISSING" not in notes(quiet, {})


def test_the_doctor_starts_without_a_key_to_say_which() -> None:
    def optional(of: Pod) -> bool:
        (volume,) = (each for each in of.spec["volumes"] if each["name"] == "secrets")
        return bool(volume["secret"].get("optional"))

    (doctor,) = (
        each
        for each in pods(render(BASE))
        if each.owner["kind"] == "Pod" and each.containers[-1]["name"] == "doctor"
    )
    assert optional(doctor)
    assert not optional(pod(render(BASE), "worker"))
