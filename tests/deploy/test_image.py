"""The worker's image, started as a cluster would start it."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker
import pytest
from docker.models.containers import Container

from sandbox import build
from sandbox.base import SandboxUnavailable
from sandbox.engine import open_engine
from tests.deploy import image, sbom
from tests.deploy.image import PARTS, ROOT
from worker import __version__

LARGEST = 250_000_000
DEADLINE = 30.0
SECRET = "image-webhook-secret-0123456789"


@pytest.fixture(scope="module")
def worker_image(sandbox_image: str) -> str:
    """Its tag, built if need be. The sandbox's comes first: they share the base."""
    return image.ensure()


@contextmanager
def started(
    tag: str, *arguments: str, entrypoint: str | None = None, **environment: str
) -> Iterator[Container]:
    """A container as the chart's: another's root, no rights, no network."""
    client = docker.from_env()
    container = client.containers.run(
        tag,
        list(arguments),
        entrypoint=entrypoint,
        environment=environment,
        detach=True,
        read_only=True,
        tmpfs={"/tmp": "size=64m", "/var/lib/sandpiper": "size=64m,uid=10001"},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        network_mode="none",
        mem_limit="512m",
    )
    try:
        yield container
    finally:
        container.remove(force=True, v=True)
        client.close()


def output(tag: str, *arguments: str, entrypoint: str | None = None) -> str:
    """What a command prints; it has to succeed."""
    with started(tag, *arguments, entrypoint=entrypoint) as container:
        status = container.wait(timeout=DEADLINE)["StatusCode"]
        text = container.logs().decode()
        assert status == 0, text
        return text


def test_the_image_is_small_and_runs_as_a_number(worker_image: str) -> None:
    client = docker.from_env()
    found = client.images.get(worker_image)
    client.close()
    assert found.attrs["Size"] < LARGEST
    assert found.attrs["Config"]["User"] == "10001:10001"
    assert found.attrs["Config"]["Entrypoint"] == ["sandpiper"]
    assert f"sandpiper:{__version__}" in found.tags


def test_every_command_of_it_starts(worker_image: str) -> None:
    assert __version__ in output(worker_image, "--version")
    assert "analyze" in output(worker_image, "--help")
    assert "Usage" in output(worker_image, "worker", "--help")


def test_what_builds_or_raises_rights_is_not_in_it(worker_image: str) -> None:
    look = (
        "for tool in pip pip3 gcc cc make apt-get curl; do command -v $tool; done;"
        "find / -xdev -perm /6000 -type f 2>/dev/null;"
        "find / -xdev -writable -type d 2>/dev/null | grep -Ev '^/(dev|tmp|var/lib/sandpiper)';"
        "find / -xdev -name 'pip.conf' -o -xdev -name '*.whl' 2>/dev/null; id -u"
    )
    assert output(worker_image, "-c", look, entrypoint="/bin/sh").split() == ["10001"]


def test_serve_answers_and_docker_says_it_is_healthy(worker_image: str) -> None:
    broker = "redis://127.0.0.1:1/0"
    with started(
        worker_image,
        *("serve", "--host", "0.0.0.0"),
        GITLAB_WEBHOOK_SECRET=SECRET,
        SANDPIPER_BROKER=broker,
    ) as serving:
        until = time.monotonic() + DEADLINE
        while (answer := serving.exec_run(["python", "-m", "worker.health"])).exit_code:
            assert time.monotonic() < until, f"{answer.output!r} {serving.logs()!r}"
            time.sleep(0.2)
        url = "http://127.0.0.1:8080/readyz"
        ready = serving.exec_run(["python", "-m", "worker.health", url])
        assert ready.exit_code == 1
        assert "the broker does not answer" in str(ready.output)
        serving.stop(timeout=20)
        serving.reload()
        assert serving.attrs["State"]["ExitCode"] in (0, 143), serving.logs().decode()


@pytest.mark.attack("supply")
def test_every_package_of_an_image_is_on_its_bill(worker_image: str, sandbox_image: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    listing = "dpkg-query -Wf '${Package} ${Version}\\n'; ls /opt/sandpiper/lib/python3*/*/ || true"
    for tag in (sandbox_image, worker_image):
        text = sbom.write(tag).read_text("utf-8")
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        told = json.loads(text)
        assert told["metadata"]["component"]["bom-ref"] == tag
        listed = output(tag, "-c", listing, entrypoint="/bin/sh").splitlines()
        debian = {tuple(line.split(" ")) for line in listed if line.count(" ") == 1}
        infos = [re.fullmatch(r"(.+)-(\S+)\.dist-info", line) for line in listed]
        python = {(each[1].lower().replace("_", "-"), each[2]) for each in infos if each}
        found: dict[str, set[tuple[str, str]]] = {"deb": set(), "pypi": set()}
        for each in told["components"]:
            kind = each["purl"].removeprefix("pkg:").partition("/")[0]
            name = re.sub(r"[-_.]+", "-", each["name"]) if kind == "pypi" else each["name"]
            found[kind].add((name, each["version"]))
        assert found["deb"] >= debian
        assert len(debian) > 50
        assert {(re.sub(r"[-_.]+", "-", name), version) for name, version in python} == found[
            "pypi"
        ]
        assert bool(python) == (tag == worker_image)


def test_a_chosen_base_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    unchosen = build.compute_image_tag(), image.image_tag()
    with closing(open_engine(None)) as api:
        there = build.find_base(api, print)
        monkeypatch.setenv("SANDPIPER_BASE", there)
        assert build.find_base(api, print) == there
        nowhere = f"registry.invalid/debian@sha256:{'0' * 64}"
        monkeypatch.setenv("SANDPIPER_BASE", nowhere)
        with pytest.raises(SandboxUnavailable, match=r"no registry gave registry\.invalid"):
            build.find_base(api, print)
    chosen = build.compute_image_tag(), image.image_tag()
    assert len({*unchosen, *chosen}) == 4


def test_the_context_is_what_the_dockerfile_copies() -> None:
    copied = {
        word.partition("/")[0]
        for line in (ROOT / image.DOCKERFILE).read_text("utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    assert set(PARTS) == copied - {".pip*"} == let_through - {".pip"}
