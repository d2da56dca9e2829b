"""What the chart makes of its values, over the whole matrix of them."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from sandbox.kubernetes.cluster import LABELS
from tests.deploy.chart import (
    CHART,
    KUBERNETES,
    Manifest,
    Values,
    environment,
    of_kind,
    pod,
    pods,
    render,
    run,
    selects,
)
from tests.deploy.matrix import BASE, CONFIG, INGRESS, MATRIX
from tests.law.house import none
from tests.simulators.kubernetes.schema import find_fault
from worker import app
from worker.cli import cli
from worker.settings import Settings
from worker.telemetry.metrics import Metrics
from worker.webhook import http

pytestmark = pytest.mark.timeout(900)

OWN = ("receiver", "worker", "sweep", "analyze", "webhooks", "doctor", "ready")
"""Containers of our own image."""
CUSTOM = ("ScaledObject", "PodMonitor", "ServiceMonitor")
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
LONGEST_NAME = 63
SUFFIX = len("-abcde")
"""What a Job adds for its pods."""
VARIED = ("least", "dind", "an engine outside", "a job and a sweep", "everything")
"""Between them they have every manifest once, for what is slow."""


def found(look: Callable[[tuple[Manifest, ...]], Iterator[str]]) -> list[str]:
    """What `look` finds wrong with what each of the matrix renders to."""
    return [f"{name}: {each}" for name, values in MATRIX.items() for each in look(render(values))]


def test_helm_lint_has_nothing_to_say() -> None:
    wrong = []
    for name in VARIED:
        done = run("lint --strict --quiet", MATRIX[name], "--kube-version", KUBERNETES)
        if done.returncode or done.stderr:
            wrong.append(f"{name}: {done.stdout}{done.stderr}")
    assert none(wrong)


@pytest.mark.parametrize(("version", "names"), [("1.29", VARIED), ("1.36", tuple(MATRIX))])
def test_kubernetes_knows_every_field(version: str, names: tuple[str, ...]) -> None:
    different = {
        json.dumps(each)
        for name in names
        for each in render(MATRIX[name])
        if each["kind"] not in CUSTOM
    }
    wrong = []
    for each in sorted(different):
        if fault := find_fault(json.loads(each), version):
            wrong.append(f"{each[:200]}: {fault}")
    assert none(wrong)


def test_a_planted_field_is_refused() -> None:
    (first, *_) = of_kind(render(BASE), "Deployment")
    assert "'replica' was unexpected" in find_fault(
        {**first, "spec": {**first["spec"], "replica": 1}}, "1.36"
    )


def test_every_container_is_restricted_but_the_engine() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for each in pods(manifests):
            for container in each.containers:
                context = container["securityContext"]
                if container["name"] != "engine" and not RESTRICTED.items() <= context.items():
                    yield f"{each.name}: {container['name']}: {context}"
            context = each.spec["securityContext"]
            if not (context["runAsNonRoot"] and context.get("runAsUser", 1)):
                yield f"{each.name}: {context}"

    assert none(found(look))
    for name, values in MATRIX.items():
        for each in pods(render(values)):
            context = each.spec["securityContext"]
            chosen = {context.get("runAsUser"), context.get("fsGroup")}
            assert (chosen == {None}) if name == "openshift" else all(chosen), each.name


def test_nothing_of_the_node_is_in_a_pod() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for each in pods(manifests):
            for key in ("hostNetwork", "hostPID", "hostIPC"):
                if each.spec.get(key):
                    yield f"{each.name}: {key}"
            if any("hostPath" in volume for volume in each.spec.get("volumes", ())):
                yield f"{each.name}: hostPath"
            if each.spec.get("automountServiceAccountToken") is not False:
                yield f"{each.name}: has a token for the cluster"

    assert none(found(look))


def test_only_the_sidecar_is_privileged_and_an_outside_engine_needs_none() -> None:
    def privileged(values: Values) -> set[str]:
        return {
            container["name"]
            for each in pods(render(values))
            for container in each.containers
            if container["securityContext"].get("privileged")
        }

    assert privileged(MATRIX["least"]) == privileged(MATRIX["dind"]) == {"engine"}
    assert privileged(MATRIX["an engine outside"]) == set()
    assert privileged(MATRIX["a context of one's own"]) == set()


def test_every_container_says_what_it_needs() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for each in pods(manifests):
            for container in each.containers:
                resources = container["resources"]
                if not (resources["requests"] and resources["limits"]["memory"]):
                    yield f"{each.name}: {container['name']}: {resources}"
            for volume in each.spec.get("volumes", ()):
                if "emptyDir" in volume and not volume["emptyDir"].get("sizeLimit"):
                    yield f"{each.name}: {volume['name']} has no limit"

    assert none(found(look))


def test_what_runs_for_ever_has_probes() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for each in pods(manifests):
            if each.owner["kind"] not in ("Deployment", "StatefulSet"):
                continue
            for container in each.spec["containers"]:
                if not ("livenessProbe" in container and "startupProbe" in container):
                    yield f"{each.name}: {container['name']}"

    assert none(found(look))
    (receiver,) = pod(render(BASE), "receiver").spec["containers"]
    assert receiver["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert receiver["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_every_selector_finds_its_pods() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        every = [each.labels for each in pods(manifests)] + [LABELS]  # and those a worker makes
        for each in manifests:
            name = f"{each['kind']}/{each['metadata']['name']}"
            spec = each.get("spec", {})
            selector = spec.get("podSelector") or spec.get("selector")
            if each["kind"] == "Service":
                selector = {"matchLabels": selector}
            if not selector:
                continue
            chosen = [labels for labels in every if selects(selector, labels)]
            if not chosen:
                yield f"{name} selects nothing"
            components = {labels["app.kubernetes.io/component"] for labels in chosen}
            if each["kind"] != "NetworkPolicy" and len(components) > 1:
                yield f"{name} selects more than one component"

    assert none(found(look))


def test_a_secret_is_only_ever_a_reference() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for made in of_kind(manifests, "Secret"):
            yield f"makes the Secret {made['metadata']['name']}"
        for each in pods(manifests):
            for container in each.containers:
                for variable, value in environment(container).items():
                    secret = variable.endswith(("_TOKEN", "_KEY", "_SECRET", "_PASSWORD"))
                    if secret and value:
                        yield f"{each.name}: {variable}"

    assert none(found(look))


def test_the_receiver_gets_no_token() -> None:
    (receiver,) = pod(render(BASE), "receiver").spec["containers"]
    files = {name for name in environment(receiver) if name.endswith("_FILE")}
    assert files == {"GITLAB_WEBHOOK_SECRET_FILE"}
    (keyed,) = pod(render(MATRIX["a secret for each project"]), "receiver").spec["containers"]
    files = {name for name in environment(keyed) if name.endswith("_FILE")}
    assert files == {"GITLAB_WEBHOOK_KEY_FILE"}


def test_a_pod_lives_longer_than_its_worker_takes_to_stop() -> None:
    default = pod(render(BASE), "worker").spec["terminationGracePeriodSeconds"]
    assert default == Settings().worker.grace + 30
    chosen = pod(render(MATRIX["everything"]), "worker").spec["terminationGracePeriodSeconds"]
    assert chosen > CONFIG["worker"]["grace"] + 25


def test_a_job_may_take_as_long_as_a_run() -> None:
    (job,) = of_kind(render(MATRIX["one job alone"]), "Job")
    assert job["spec"]["activeDeadlineSeconds"] > Settings().limits.wall_clock + 600


def test_another_request_is_another_job() -> None:
    one, other = (
        {**MATRIX["one job alone"], "job": {"enabled": True, "mergeRequest": f"group/project!{n}"}}
        for n in (7, 8)
    )
    names = {of_kind(render(each), "Job")[0]["metadata"]["name"] for each in (one, other)}
    assert len(names) == 2


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_mounts_no_token_to_write_with(dry_run: bool) -> None:
    alone = MATRIX["one job alone"]
    (job,) = of_kind(render({**alone, "job": {**alone["job"], "dryRun": dry_run}}), "Job")
    shown = json.dumps(job)
    assert "GITLAB_READ_TOKEN" in shown
    assert ("GITLAB_WRITE_TOKEN" in shown) is not dry_run


def test_every_command_line_is_one_that_sandpiper_knows() -> None:
    def look(manifests: tuple[Manifest, ...]) -> Iterator[str]:
        for each in pods(manifests):
            for container in each.spec["containers"]:
                if container["name"] not in OWN or "command" in container:
                    continue
                name, *arguments = container["args"]
                command = cli.get_command(cli.make_context("sandpiper", ["--", name]), name)
                if command is None:
                    yield f"{each.name}: no command {name}"
                else:
                    command.make_context(name, arguments)

    assert none(found(look))


def doctors(values: Values) -> tuple[list[str], set[str]]:
    """The arguments of `helm test`'s doctor, and the secrets it is given."""
    (doctor,) = (
        each
        for one in of_kind(render(values), "Pod")
        for each in one["spec"]["containers"]
        if each["name"] == "doctor"
    )
    files = {name for name in environment(doctor) if name.endswith("_FILE")}
    return doctor["args"][1:], files - {"AWS_SHARED_CREDENTIALS_FILE"}


def test_the_doctor_of_helm_test_leaves_out_what_the_release_does_not_run() -> None:
    arguments, files = doctors(BASE)
    assert arguments == []
    assert files >= {"GITLAB_WEBHOOK_SECRET_FILE", "GITLAB_READ_TOKEN_FILE"}
    arguments, files = doctors(MATRIX["worker alone"])
    assert arguments == ["--skip", "settings", "--skip", "webhook", "--skip", "receiver"]
    assert "GITLAB_WEBHOOK_SECRET_FILE" not in files
    url = ["--url", "https://sandpiper.example.com"]
    assert doctors(MATRIX["receiver alone"])[0] == [*url, "--skip", "workers"]
    idle = {**BASE, "worker": {"replicas": 0}}
    assert doctors(idle)[0] == ["--skip", "workers"]
    assert doctors({**idle, "autoscaling": {"kind": "keda"}})[0] == []


def test_the_token_that_makes_webhooks_goes_to_its_job_alone() -> None:
    manifests = render(MATRIX["webhooks"])
    having = {
        each.labels["app.kubernetes.io/component"]
        for each in pods(manifests)
        for container in each.containers
        if "GITLAB_SETUP_TOKEN_FILE" in environment(container)
    }
    assert having == {"webhooks"}
    (job,) = of_kind(manifests, "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == f"https://{INGRESS['host']}"
    files = {name for name in environment(container) if name.endswith("_FILE")}
    assert files >= {"GITLAB_WEBHOOK_SECRET_FILE", "GITLAB_READ_TOKEN_FILE"}
    assert not any(each["name"] == "engine" for each in pod(manifests, "webhooks").containers)


def test_the_ingress_leads_to_the_door_and_the_pages_only() -> None:
    (ingress,) = of_kind(render(MATRIX["receiver alone"]), "Ingress")
    paths = {each["path"] for rule in ingress["spec"]["rules"] for each in rule["http"]["paths"]}
    assert paths == {http.PATH, http.CI_PATH, "/sessions", "/incidents", "/tests"}


def test_the_receiver_reaches_the_store_and_its_pages_have_the_workers_secret() -> None:
    manifests = render(MATRIX["everything"])
    secrets = [
        environment(container).get("SANDPIPER_PAGE_SECRET_FILE")
        for component in ("receiver", "worker", "sweep", "analyze", "webhooks")
        for container in pod(manifests, component).spec["containers"]
    ]
    assert secrets == ["/etc/sandpiper/secrets/SANDPIPER_PAGE_SECRET"] * 5
    (policy,) = (
        each
        for each in of_kind(render(MATRIX["closed"]), "NetworkPolicy")
        if each["metadata"]["name"].endswith("-receiver")
    )
    ways = [peer.get("ipBlock") for rule in policy["spec"]["egress"] for peer in rule["to"]]
    assert {"cidr": "10.0.0.7/32"} in ways
    folder = pod(render(MATRIX["a folder"]), "receiver").spec["volumes"]
    assert any("persistentVolumeClaim" in volume for volume in folder)


def test_what_pods_are_scaled_by_is_a_metric_of_ours() -> None:
    (scaled,) = of_kind(render(MATRIX["hpa"]), "HorizontalPodAutoscaler")
    (metric,) = scaled["spec"]["metrics"]
    names = {each.name for each in Metrics().registry.collect()}
    assert metric["pods"]["metric"]["name"] in names


def test_every_pod_is_closed_but_for_what_it_needs() -> None:
    for name, values in MATRIX.items():
        manifests = render(values)
        policies = of_kind(manifests, "NetworkPolicy")
        if name in ("no network policies", "pods elsewhere"):
            assert {each["metadata"]["name"] for each in policies} <= {"r-sandpiper-sandboxes"}
            continue
        (deny,) = (each for each in policies if each["metadata"]["name"].endswith("-deny"))
        assert deny["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert set(deny["spec"]) == {"podSelector", "policyTypes"}
        for each in pods(manifests):
            assert selects(deny["spec"]["podSelector"], each.labels), each.name


def test_a_worker_goes_to_the_named_places_only() -> None:
    manifests = render(MATRIX["closed"])
    (policy,) = (
        each
        for each in of_kind(manifests, "NetworkPolicy")
        if each["metadata"]["name"].endswith("-worker")
    )
    ways = {
        (peer["ipBlock"]["cidr"] if "ipBlock" in peer else "pods", port["port"])
        for rule in policy["spec"]["egress"]
        for peer in rule["to"]
        for port in rule["ports"]
    }
    named = {("10.0.0.5/32", 8443), ("10.0.0.7/32", 9000), ("10.0.0.9/32", 5000)}
    # Besides: name servers and Redis. Models are closed, and a sidecar needs no engine elsewhere.
    assert ways == named | {("pods", 53), ("pods", 6379)}
    assert "ingress" not in policy["spec"]


def ways_out(values: Values) -> set[tuple[str, int]]:
    """Every address and port that a pod may reach."""
    return {
        (peer["ipBlock"]["cidr"], port["port"])
        for policy in of_kind(render(values), "NetworkPolicy")
        for rule in policy["spec"].get("egress", ())
        for peer in rule["to"]
        if "ipBlock" in peer
        for port in rule["ports"]
    }


@pytest.mark.attack("supply")
def test_nothing_goes_everywhere_unless_it_is_asked_for(
    record_property: Callable[[str, object], None],
) -> None:
    for name, values in MATRIX.items():
        wide = {way for way in ways_out(values) if int(way[0].partition("/")[2]) < 16}
        assert wide == set(), name
    named = BASE["networkPolicy"]
    needed = ("gitlab", "models", "store", "registry")
    for way in needed:
        without = {key: value for key, value in named.items() if key != way}
        done = run("template r", {**BASE, "networkPolicy": without})
        assert f"networkPolicy.{way}.cidrs: name the addresses" in done.stderr
        opened = ways_out({**BASE, "networkPolicy": {**without, "anywhere": True}})
        assert {each for each in opened if each[0] == "0.0.0.0/0"} == {("0.0.0.0/0", 443)}
        assert ways_out({**BASE, "networkPolicy": {**named, way: {"cidrs": []}}}) < ways_out(BASE)
    record_property("tried", len(MATRIX) + len(needed))


@pytest.mark.attack("supply")
def test_every_image_can_be_pinned_by_its_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    values = {
        **MATRIX["everything"],
        "redis": {"enabled": True, "image": f"redis:7.4-alpine@{digest}"},
        "engine": {"sidecar": {"image": f"docker:29-dind-rootless@{digest}"}},
        "config": {**CONFIG, "sandbox": {"image": f"registry.example.com/sandbox@{digest}"}},
    }
    manifests = render(values)
    images = {each["image"] for pod in pods(manifests) for each in pod.containers}
    assert len(images) == 3
    assert {image for image in images if not image.endswith(f"@{digest}")} == set()


def test_the_metadata_address_is_out_of_reach_unless_asked_for() -> None:
    def opened(values: Values) -> bool:
        return any(
            peer.get("ipBlock", {}).get("cidr", "").startswith("169.254.")
            for policy in of_kind(render(values), "NetworkPolicy")
            for rule in policy["spec"].get("egress", ())
            for peer in rule["to"]
        )

    assert not opened(BASE)
    assert opened(MATRIX["workload identity"])


def test_keda_counts_what_waits_and_what_runs() -> None:
    (scaled,) = of_kind(render(MATRIX["keda on redis"]), "ScaledObject")
    spec = scaled["spec"]
    assert spec["scaleTargetRef"] == {"name": "r-sandpiper-worker"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 20)
    triggers = {each["name"]: each["metadata"] for each in spec["triggers"]}
    queue = app.build_app(Settings(), lambda: pytest.fail("not needed")).conf.task_default_queue
    assert triggers["waiting"]["listName"] == queue
    assert triggers["running"]["listName"] == "unacked"
    assert triggers["waiting"]["address"] == "r-sandpiper-redis.team.svc:6379"
    assert all(isinstance(value, str) for each in triggers.values() for value in each.values())
    modifiers = spec["advanced"]["scalingModifiers"]
    assert set(modifiers["formula"].split(" + ")) == set(triggers)
    (worker,) = pod(render(MATRIX["keda on redis"]), "worker").spec["containers"]
    assert f"--concurrency={modifiers['target']}" in worker["args"]
    assert "replicas" not in of_kind(render(MATRIX["keda on redis"]), "Deployment")[1]["spec"]


def test_keda_asks_rabbitmq_over_http() -> None:
    (scaled,) = of_kind(render(MATRIX["keda on rabbitmq"]), "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "rabbitmq"
    assert trigger["metadata"]["protocol"] == "http"
    assert trigger["authenticationRef"] == {"name": "rabbit"}


def test_each_dashboard_is_a_config_map_for_grafana() -> None:
    maps = {
        name: each["metadata"]["labels"]["grafana_dashboard"]
        for each in of_kind(render(MATRIX["monitors"]), "ConfigMap")
        for name in each["data"]
        if name.endswith(".json")
    }
    assert maps == {each.name: "1" for each in (CHART / "dashboards").glob("*.json")}


def test_names_are_short_enough_whatever_the_release_is_called() -> None:
    for each in render(MATRIX["everything"] | {"fullnameOverride": ""}, "r" * 53):
        assert len(each["metadata"]["name"]) + SUFFIX <= LONGEST_NAME, each["metadata"]["name"]


SHOWN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ tpl (.Files.Get "NOTES.txt") . | quote }}}
"""
"""Only an installation shows the notes; here they are a manifest."""


def test_the_notes_say_what_to_do_next(tmp_path: Path) -> None:
    copied = shutil.copytree(CHART, tmp_path / "chart")
    (copied / "templates/NOTES.txt").rename(copied / "NOTES.txt")
    (copied / "templates/notes.yaml").write_text(SHOWN)
    options = ("--kube-version", KUBERNETES, "--show-only", "templates/notes.yaml")
    done = run("template r", MATRIX["everything"], *options, chart=copied)
    assert done.returncode == 0, done.stderr
    notes = yaml.safe_load(done.stdout)["data"]["notes"]
    assert "https://sandpiper.example.com/webhooks/gitlab" in notes
    assert "helm test r" in notes
    assert "privileged" in notes
