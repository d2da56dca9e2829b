"""What the chart gives to a container is what the product reads."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from tests.deploy import config_schema
from tests.deploy.chart import (
    CHART,
    KUBERNETES,
    Values,
    environment,
    of_kind,
    pod,
    read_manifests,
    read_refusal,
    render,
    run,
)
from tests.deploy.matrix import BASE, MATRIX, PAGES
from worker import settings
from worker.settings import Settings, reference

pytestmark = pytest.mark.timeout(900)


def loaded(values: Values, component: str, folder: Path) -> Settings:
    """The settings that a container of the component would read; each secret is its own name."""
    manifests = render(values)
    (config,) = (
        each for each in of_kind(manifests, "ConfigMap") if "sandpiper.yaml" in each["data"]
    )
    file = folder / "sandpiper.yaml"
    file.write_text(config["data"]["sandpiper.yaml"])
    (container,) = pod(manifests, component).spec["containers"]
    given = environment(container)
    assert given["SANDPIPER_CONFIG"] == "/etc/sandpiper/sandpiper.yaml"
    for variable in [name for name in given if name.endswith("_FILE")]:
        (folder / variable).write_text(variable)
        given[variable] = str(folder / variable)
    return settings.load(str(file), given)


@pytest.mark.parametrize("name", MATRIX)
def test_the_rendered_file_is_one_that_sandpiper_takes(name: str, tmp_path: Path) -> None:
    values = MATRIX[name]
    component = "worker" if "worker" not in values else "receiver"
    if values.get("worker", {}).get("enabled") is False:
        component = "receiver"
    if values.get("receiver", {}).get("enabled") is False:
        component = "analyze" if "job" in values else "worker"
    read = loaded(values, component, tmp_path)
    assert read.store == values["store"]["url"]
    if "config" in values:
        assert read.gitlab.url == values["config"]["gitlab"]["url"]
    if values.get("redis"):
        name = values.get("fullnameOverride", "r-sandpiper")
        assert read.broker == f"redis://{name}-redis:6379/0"


def test_a_worker_has_its_tokens_and_its_key(tmp_path: Path) -> None:
    read = loaded(BASE, "worker", tmp_path)
    assert read.gitlab.read_token == "GITLAB_READ_TOKEN_FILE"
    assert read.gitlab.write_token == "GITLAB_WRITE_TOKEN_FILE"
    assert read.models.get_provider("anthropic").key == "ANTHROPIC_API_KEY_FILE"


def test_limits_are_shared_only_where_the_engine_has_none_to_give(tmp_path: Path) -> None:
    assert loaded(BASE, "worker", tmp_path).sandbox.shared_limits
    assert not loaded(MATRIX["dind"], "worker", tmp_path).sandbox.shared_limits
    assert not loaded(MATRIX["an engine outside"], "worker", tmp_path).sandbox.shared_limits


def test_the_sidecar_pulls_the_image_that_sandboxes_are_made_of() -> None:
    (image,) = (
        environment(each)["IMAGE"]
        for each in pod(render(MATRIX["everything"]), "worker").containers
        if each["name"] == "sandbox-image"
    )
    assert image == "registry.example.com/sandbox:1"


# What is wrong → the words that say so.
REFUSED: list[tuple[Values, str]] = [
    ({"secrets": {}}, "secrets.existingSecret: name a Secret"),
    ({"worker": {"concurency": 3}}, "worker: Additional property concurency is not allowed"),
    ({"worker": {"replicas": "two"}}, "worker.replicas: "),
    ({"worker": {"resources": {"limits": {"memory": "1Gi"}}, "concurrency": 0}}, "r.concurrency: "),
    ({"store": {"url": ""}}, "store.url: expected s3://"),
    ({"store": {"url": "gs://bucket"}}, "store.url: "),
    ({"store": {"url": "file:///var/lib/sandpiper"}}, "store.persistence.enabled"),
    (
        {"store": {"url": "file:///srv", "persistence": {"enabled": True}}},
        "has to be file:///var/lib/sandpiper",
    ),
    ({"redis": {"enabled": False}}, "exactly one of redis.enabled, broker.url"),
    ({"broker": {"url": "redis://other:6379/0"}}, "exactly one of redis.enabled, broker.url"),
    ({"broker": {"url": "redis://:password@host:6379/0"}}, "broker.url: "),
    ({"config": {"broker": "redis://x"}}, "config.broker: set the value `broker`"),
    ({"config": "gitlab:"}, "config: "),
    (
        {"config": {"gitlab": {"projcts": []}}},
        "config.gitlab: Additional property projcts is not allowed",
    ),
    ({"config": {"gitlab": {"read_token": "glpat-x"}}}, "property read_token is not allowed"),
    ({"config": {"limits": {"cost_usd": -1}}}, "config.limits.cost_usd: "),
    ({"config": {"models": {"providers": {"x": {"urll": "y"}}}}}, "config.models.providers.x: "),
    ({"networkPolicy": {"enabled": False}}, "this Redis has no password"),
    ({"engine": {"mode": "socket"}}, "engine.mode: "),
    ({"engine": {"mode": "external"}}, "engine.external.host: expected tcp://"),
    (
        {"engine": {"mode": "external", "external": {"host": "tcp://engine:2375"}}},
        "engine.external.tlsSecret: whoever reaches an engine without TLS is root",
    ),
    (
        {"secrets": {"existingSecret": "s", "receiver": PAGES}},
        "secrets.receiver: SANDPIPER_PAGE_SECRET has to be the same for receiver and worker",
    ),
    ({"config": {"metrics": {"enabled": False}}}, "nothing answers there"),
    ({"webhooks": {"fix": True}}, "the webhooks need an address"),
    ({"job": {"enabled": True}}, "job.mergeRequest: expected a URL"),
    ({"job": {"enabled": True, "mergeRequest": "project 7"}}, "job.mergeRequest: "),
    ({"receiver": {"ingress": {"enabled": True}}}, "receiver.ingress.host: expected"),
    ({"sweep": {"schedule": "hourly"}}, "sweep.schedule: "),
    ({"autoscaling": {"minReplicas": 5, "maxReplicas": 2}}, "more than autoscaling.maxReplicas"),
    ({"autoscaling": {"kind": "vpa"}}, "autoscaling.kind: "),
    (
        {"autoscaling": {"kind": "keda", "keda": {"trigger": "rabbitmq"}}},
        "autoscaling.keda.authentication",
    ),
    ({"image": {"digest": "latest"}}, "image.digest: "),
    ({"env": {"lower": "x"}}, "lower"),
    ({"networkPolicy": {"gitlab": {"cidrs": ["gitlab.example.com"]}}}, "gitlab.cidrs.0: "),
    ({"metrics": {"port": 99999}}, "metrics.port: "),
]


def test_the_chart_takes_the_settings_there_are() -> None:
    assert config_schema.current() == config_schema.schema(), (
        "run python -m tests.deploy.config_schema"
    )


def test_every_setting_at_its_default_is_taken(tmp_path: Path) -> None:
    config = yaml.safe_load(reference.format_example())
    own = {name: config.pop(name) for name in config_schema.OWN}
    read = loaded({**BASE, "config": config}, "worker", tmp_path).model_dump()
    told = Settings.model_validate(config).model_dump()
    assert own.keys() <= told.keys()
    changed = {name for name in told if read[name] != told[name]}
    # The chart's own, and what a secret brings along: shared_limits, the port, the key's provider.
    assert changed <= {*own, "sandbox", "metrics", "models"}


@pytest.mark.parametrize("command", ["template r", "lint --quiet"])
def test_wrong_values_are_refused_and_said_what_is_wrong(command: str) -> None:
    for wrong, words in REFUSED:
        done = run(command, {**BASE, **wrong}, "--kube-version", KUBERNETES)
        assert done.returncode != 0, f"{wrong} was taken"
        assert words in read_refusal(done), f"{wrong}: {read_refusal(done)}"


TOKENS = "secrets.existingSecret: name a Secret with the tokens, see the README of the chart"
STORE = "store.url: expected s3://bucket/prefix or file:///var/lib/sandpiper"
BROKER = "broker: set exactly one of redis.enabled, broker.url and broker.existingSecret"
ADDRESSES = (
    "name the addresses, like [203.0.113.7/32] ([]: none), or set networkPolicy.anywhere to open "
    "their ports to every address"
)
WAYS = ", ".join(f"networkPolicy.{way}.cidrs" for way in ("gitlab", "models", "store", "registry"))
NO_STORE = ", ".join(f"networkPolicy.{way}.cidrs" for way in ("gitlab", "models", "cluster"))
# What is given → every line of the one message.
INCOMPLETE: list[tuple[Values, list[str]]] = [
    ({}, [TOKENS, STORE, BROKER, f"{WAYS}: {ADDRESSES}"]),
    ({"networkPolicy": {"anywhere": True}}, [TOKENS, STORE, BROKER]),
    ({**BASE, "secrets": {}}, [TOKENS]),
    ({**BASE, "networkPolicy": {}}, [f"{WAYS}: {ADDRESSES}"]),
    (
        {
            **BASE,
            "networkPolicy": {},
            "engine": {"mode": "pods"},
            "store": {"url": "file:///var/lib/sandpiper", "persistence": {"enabled": True}},
        },
        [f"{NO_STORE}: {ADDRESSES}"],
    ),
    (
        {
            **BASE,
            "engine": {"mode": "external"},
            "job": {"enabled": True},
            "receiver": {"ingress": {"enabled": True}},
        },
        [
            "engine.external.host: expected tcp://host:2376",
            "engine.external.tlsSecret: whoever reaches an engine without TLS is root on its host; "
            "name a Secret with ca.pem, cert.pem and key.pem",
            "job.mergeRequest: expected a URL, or group/project!iid",
            "receiver.ingress.host: expected the host name that GitLab will call",
        ],
    ),
]


@pytest.mark.parametrize(("values", "lines"), INCOMPLETE)
def test_all_that_is_missing_is_said_at_once_and_lint_says_the_same(
    values: Values, lines: list[str]
) -> None:
    many = f"{len(lines)} values are missing or wrong:"
    done = run("template r", values, "--kube-version", KUBERNETES)
    said = done.stderr.partition("config.yaml:1:4): ")[2].partition("\n\n")[0].split("\n  ")
    assert (done.returncode, said) == (1, lines if len(lines) == 1 else [many, *lines])
    done = run("lint --quiet", values, "--kube-version", KUBERNETES)
    one = lines[0] if len(lines) == 1 else f"{many} {'; '.join(lines)}"
    assert done.returncode == 1
    assert f'no template "{one}" associated' in done.stdout


def test_the_readme_s_values_make_what_it_says(tmp_path: Path) -> None:
    readme = (CHART / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    values = yaml.safe_load(textwrap.dedent(block))
    for component in ("receiver", "worker"):
        pages = loaded(values, component, tmp_path).pages
        assert (pages.url, pages.secret) == (f"https://{values['receiver']['ingress']['host']}", "")
    assert "`networkPolicy: {anywhere: true}` in place of those lines" in readme
    assert render({**values, "networkPolicy": {"anywhere": True}})
    kinds = {each["kind"] for each in render(values)}
    assert {"Deployment", "StatefulSet", "Ingress", "CronJob", "NetworkPolicy"} <= kinds
    flags = re.findall(r"--set (\S+)", readme)
    options = [word for flag in flags for word in ("--set", flag)]
    done = run("template try", values, *options, "--kube-version", KUBERNETES)
    assert done.returncode == 0, done.stderr
    made = {each["kind"] for each in read_manifests(done.stdout)}
    assert "Job" in made
    assert not made & {"Deployment", "StatefulSet", "CronJob", "Ingress"}
