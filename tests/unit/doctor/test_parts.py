"""The doctor over a real engine, a real S3 server and a real broker; and its own manners."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import docker
import pytest

from sandbox.docker import DockerContainer, DockerSandbox
from sandbox.engine import open_engine
from sandbox.spec import ContainerSpec, choose_users, make_owner
from tests.simulators.anthropic import BedrockSim
from tests.simulators.anthropic.signatures import Account
from tests.simulators.openai import AzureChatSim, ChatSim
from tests.stores import S3Server
from tests.unit.doctor.bed import Bed
from worker import settings as settings_module
from worker.cli import doctor
from worker.doctor.base import Check, CheckLine, CheckStatus, Installation, report_good, run_checks
from worker.errors import StoreError
from worker.lab.script import Answer, Asked, Call, Say
from worker.sessions.bucket import S3Store
from worker.sessions.objects import Records, Stored


def blamed(lines: Iterable[CheckLine]) -> dict[str, str]:
    return {line.name: f"{line.finding} {line.advice}" for line in lines if line.status != "ok"}


# --------------------------------------------------------------------------------------- the store


@pytest.fixture
def s3(patient: Bed, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bed:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    patient.env["SANDPIPER_STORE"] = f"s3://{s3_server.bucket()}/sessions"
    patient.env["AWS_ENDPOINT_URL_S3"] = s3_server.endpoint
    return patient


def test_a_bucket_is_written_read_back_and_left_empty(s3: Bed, s3_server: S3Server) -> None:
    assert blamed(s3.lines("store", "disk", "store-clock")) == {}
    bucket = s3.env["SANDPIPER_STORE"].split("/")[2]
    assert "Contents" not in s3_server.client.list_objects_v2(Bucket=bucket)


def test_a_missing_bucket_is_to_be_created(s3: Bed) -> None:
    s3.env["SANDPIPER_STORE"] = "s3://no-such-bucket-there/x"
    assert "create the bucket" in blamed(s3.lines("store"))["store"]


def test_s3_that_is_down_is_said_to_be(s3: Bed) -> None:
    s3.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9"
    found = blamed(s3.lines("store", "store-clock"))
    assert "no answer from http://127.0.0.1:9: nothing listens there" in found["store"]
    assert "S3 told no time" in found["store-clock"]


def test_s3_that_ignores_conditions_is_refused(s3: Bed, s3_server: S3Server) -> None:
    def forget(request: Any, **_: Any) -> None:
        del request.headers["If-None-Match"]

    session = boto3.Session("testing", "testing", region_name="us-east-1")
    session.events.register("before-sign.s3.PutObject", forget)
    careless = S3Store(s3_server.bucket(), "", s3_server.endpoint, session=session)
    s3.parts["store"] = lambda: careless
    assert "use a store that honours them" in blamed(s3.lines("store"))["store"]


def test_s3_whose_clock_is_off_is_said_to_be(s3: Bed) -> None:
    s3.ahead = 1000.0
    assert "ahead of S3's" in blamed(s3.lines("store-clock"))["clock of S3"]


# ------------------------------------------------------------------------------------- the sandbox


@pytest.fixture
def ready(patient: Bed, sandbox_image: str) -> Bed:
    patient.file["sandbox"] = {"image": sandbox_image, "memory": "512m"}
    return patient


def test_a_sandbox_is_started_looked_at_and_removed(ready: Bed) -> None:
    assert blamed(ready.lines("engine", "sandbox")) == {}
    assert left() == []


def test_bubblewrap_is_looked_at_too(patient: Bed) -> None:
    patient.file["sandbox"] = {"driver": "bubblewrap", "memory": "512m"}
    assert set(blamed(patient.lines("engine", "sandbox"))) <= {"limits"}


def test_a_pod_is_looked_at_too(ready: Bed, cluster: None) -> None:
    ready.file["sandbox"] = {**ready.file["sandbox"], "driver": "kubernetes"}
    lines = ready.lines("engine", "sandbox")
    assert blamed(lines) == {}
    assert "pods of Kubernetes v1." in lines[0].finding
    assert "namespace sandboxes" in lines[0].finding


def test_no_cluster_is_said_with_what_to_set(
    ready: Bed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    ready.file["sandbox"] = {**ready.file["sandbox"], "driver": "kubernetes"}
    for found in blamed(ready.lines("engine", "sandbox")).values():
        assert "set KUBECONFIG" in found


def test_no_engine_is_said_with_where_it_was_looked_for(
    ready: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    found = blamed(ready.lines("engine", "sandbox"))
    assert "set DOCKER_HOST" in found["engine"]
    assert "unix:///nowhere.sock" in found["sandbox"]


def test_a_missing_image_is_to_be_built(ready: Bed) -> None:
    ready.file["sandbox"] = {"image": "sandpiper-sandbox:of-no-build"}
    found = blamed(ready.lines("sandbox"))["sandbox"]
    assert "build it with `sandpiper image build --tag sandpiper-sandbox:of-no-build`" in found


def test_a_runtime_that_the_engine_has_not_is_named_with_those_it_has(ready: Bed) -> None:
    ready.file["sandbox"] = {**ready.file["sandbox"], "runtime": "kata-of-no-place"}
    found = blamed(ready.lines("engine"))["runtime"]
    assert "no runtime 'kata-of-no-place'" in found
    assert "runc" in found


class LaxDriver:
    """Starts a container with next to none of the hardening."""

    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> DockerSandbox:
        api = open_engine(None)
        created = api.create_container(
            image=self._spec.image,
            entrypoint=["/bin/sh", "-c", "mkdir -p /tmp/_out; chmod 777 /tmp/_out; sleep 60"],
            command=[],
            labels={"sandpiper.session": "doctor"},
            host_config=api.create_host_config(
                network_mode="host",
                privileged=True,
                security_opt=["seccomp=unconfined"],
                binds=["/usr/share:/mnt:ro", f"{socket_of_engine()}:/run/docker.sock"],
            ),
        )
        api.start(created["Id"])
        users, owner = choose_users(), make_owner()
        container = DockerContainer(api, created["Id"], self._spec, users, owner)
        container.assign_session("doctor")
        return DockerSandbox(container, self._spec)

    def adopt(self, session: str) -> None:
        return None


def socket_of_engine() -> str:
    with open_engine(None) as api:
        return str(api.base_url).replace("http+docker://localhost", "/var/run/docker.sock")


def test_missing_hardening_is_seen_from_inside(ready: Bed, container_spec: ContainerSpec) -> None:
    ready.parts["driver"] = lambda: LaxDriver(container_spec)
    lines = ready.lines("sandbox")
    told = " / ".join(line.finding for line in lines if line.status is CheckStatus.FAILED)
    for each in (
        "there is a network interface",
        "the root is not mounted read-only",
        "no_new_privs is off",
        "there is no seccomp filter",
        "an engine's socket is there",
        "a path of the host is mounted at /mnt",
        "not limited for each sandbox: memory, processes",
    ):
        assert each in told
    assert left() == []


def left() -> list[str]:
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": "sandpiper.session=doctor"})
        return [str(each.id) for each in found]
    finally:
        client.close()


# -------------------------------------------------------------------------------------- the broker


def test_a_broker_without_a_worker_is_no_queue_that_moves(patient: Bed, redis_url: str) -> None:
    patient.env["SANDPIPER_BROKER"] = redis_url
    broker, workers = patient.lines("broker", "workers")
    assert (broker.status, broker.finding) == (CheckStatus.GOOD, "redis answers")
    assert (workers.status, "none answers" in workers.finding) == (CheckStatus.FAILED, True)
    assert "sandpiper worker" in workers.advice


def test_a_broker_that_refuses_the_password_is_named_with_what_to_do(
    patient: Bed, rabbit_url: str
) -> None:
    port = urlsplit(rabbit_url).port
    patient.env["SANDPIPER_BROKER"] = f"amqp://guest:of-no-worth@127.0.0.1:{port}//"
    (broker,) = patient.lines("broker")
    assert broker.status == CheckStatus.FAILED
    assert f"amqp://127.0.0.1:{port}// refuses this login" in broker.finding
    assert "SANDPIPER_BROKER" in broker.advice


# ------------------------------------------------------------------------------- the doctor itself


@contextmanager
def hanging() -> Iterator[Callable[[Installation], Iterable[CheckLine]]]:
    """A check that ends only with the block."""
    end = threading.Event()

    def run(patient: Installation) -> Iterable[CheckLine]:
        end.wait(30)
        return ()

    try:
        yield run
    finally:
        end.set()


def plain(tmp_path: Path) -> Installation:
    return doctor.make_installation(
        settings_module.load(None, {"SANDPIPER_STORE": f"file://{tmp_path}"})
    )


def test_a_check_that_hangs_or_breaks_stops_no_other_one(tmp_path: Path) -> None:
    def breaks(patient: Installation) -> Iterable[CheckLine]:
        yield report_good("b", "so far so good")
        raise ZeroDivisionError("a mistake of ours")

    def refuses(patient: Installation) -> Iterable[CheckLine]:
        raise StoreError("the store says no")

    def well(patient: Installation) -> Iterable[CheckLine]:
        return [report_good("d", "all is well")]

    begun = time.monotonic()
    with hanging() as hangs:
        checks = [
            Check(name, "A", run)
            for name, run in {"a": hangs, "b": breaks, "c": refuses, "d": well}.items()
        ]
        report = run_checks(plain(tmp_path), checks, str, limit=0.3)
        assert time.monotonic() - begun < 10
    assert [(line.name, line.status) for _, line in report.lines] == [
        ("a", CheckStatus.FAILED),
        ("b", CheckStatus.FAILED),
        ("c", CheckStatus.FAILED),
        ("d", CheckStatus.GOOD),
    ]
    assert [re.sub(r"y:\d+", "y:1", line.finding) for _, line in report.lines] == [
        "no answer within 0.3 s",
        "the check itself failed: ZeroDivisionError: a mistake of ours (test_parts.py:1)",
        "the store says no",
        "all is well",
    ]
    assert report.has_hung
    assert not report.ok


def test_each_line_is_told_as_soon_as_it_and_those_before_it_are_known(tmp_path: Path) -> None:
    first_is_told, third_has_run = threading.Event(), threading.Event()
    told: list[str] = []

    def waits(patient: Installation) -> Iterable[CheckLine]:
        third_has_run.wait(10)
        heard = "was" if first_is_told.wait(10) else "was not"
        return [report_good("b", f"the first line {heard} told before this one was known")]

    def runs(patient: Installation) -> Iterable[CheckLine]:
        third_has_run.set()
        return [report_good("c", "well")]

    def tell(check: Check, line: CheckLine) -> None:
        told.append(f"{check.name}: {line.finding}")
        first_is_told.set()

    checks = [
        Check("a", "A", lambda patient: [report_good("a", "well")]),
        Check("b", "A", waits),
        Check("c", "B", runs),
    ]
    run_checks(plain(tmp_path), checks, str, limit=30, tell=tell)
    assert told == [
        "a: well",
        "b: the first line was told before this one was known",
        "c: well",
    ]


def test_what_is_said_is_one_printable_line_without_secrets(tmp_path: Path) -> None:
    def hostile(patient: Installation) -> Iterable[CheckLine]:
        return [report_good("a", "one\ntwo\x1b[31m SECRET" + "x" * 5000)]

    report = run_checks(
        plain(tmp_path), [Check("a", "A", hostile)], lambda text: text.replace("SECRET", "…")
    )
    ((_, line),) = report.lines
    assert line.finding.startswith("one two�[31m …x")
    assert len(line.finding) <= 1000


@dataclass
class Forgotten:
    """Records that are written, and not there afterwards."""

    records: Records

    def read(self, name: str, limit: int) -> Stored | None:
        return None

    def create(self, name: str, content: bytes) -> bool:
        return self.records.create(name, content)

    def replace(self, name: str, content: bytes, version: str) -> bool:
        return self.records.replace(name, content, version)

    def delete(self, name: str, version: str | None = None) -> None:
        self.records.delete(name, version)

    def find_modification_time(self, name: str) -> float | None:
        return self.records.find_modification_time(name)

    def list_names(self, prefix: str) -> Iterator[str]:
        return self.records.list_names(prefix)

    def describe_place(self, name: str) -> str:
        return self.records.describe_place(name)


@dataclass
class Forgetful:
    """A store whose own probe is content."""

    records: Records

    def probe(self) -> None:
        """Lets everything pass."""


def test_a_probe_that_is_not_read_back_is_found(patient: Bed) -> None:
    settings = settings_module.load(None, patient.env)
    kept = doctor.make_installation(settings).store()

    found = patient.examined(
        replace(
            doctor.make_installation(settings), store=lambda: Forgetful(Forgotten(kept.records))
        ),
        ["store"],
    )
    assert "does not hold what was written" in blamed(found)["store"]


# ---------------------------------------------------------------------------------------- the model


@pytest.mark.parametrize("stated", [{}, {"text_tools": True}])
def test_a_server_without_native_tools_is_asked_for_calls_as_runs_ask_it(
    stated: dict[str, bool], patient: Bed
) -> None:
    call = '```tool_call\n{"name": "report_number", "arguments": {"number": 17}}\n```'
    with ChatSim(lambda asked: Say(call), takes_tools=False) as sim:
        patient.file["models"] = {
            "default": "openai-compatible/llama3",
            "providers": {"openai-compatible": {"base_url": sim.url}},
            "catalogue": {"llama3": {"window": 32_000, "input": 0, "output": 0, **stated}},
        }
        told = [line for line in patient.lines("model") if line.name == "model"]
    assert told[0].status == CheckStatus.GOOD
    assert "answers and calls tools" in told[0].finding


def test_servers_of_one_s_own_are_tried_each_as_its_row_says(
    patient: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account.key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", account.secret)

    def script(asked: Asked) -> Answer:
        return Call([("report_number", {"number": 17})]) if asked.body.get("tools") else Say("Hi.")

    with (
        ChatSim(script, key="key-of-the-first") as one,
        ChatSim(script, key="key-of-the-second") as two,
        AzureChatSim(script, {"small": "gpt-5.5"}, key="key-of-azure") as azure,
        BedrockSim(script, region="eu-west-1") as bedrock,
    ):
        patient.file["models"] = {
            "default": "one/qwen3",
            "fallback": ["two/qwen3", "ours/small", "aws/eu.anthropic.claude-opus-5-5"],
            "providers": {
                "one": {"api": "openai-chat", "base_url": one.url, "key_env": "ONE_KEY"},
                "two": {"api": "openai-chat", "base_url": two.url, "key_env": "TWO_KEY"},
                "ours": {
                    "api": "openai-chat",
                    "auth": "azure",
                    "base_url": azure.url,
                    "key_env": "AZURE_KEY",
                },
                "aws": {
                    "api": "anthropic",
                    "auth": "bedrock",
                    "base_url": bedrock.url,
                    "region": "eu-west-1",
                },
            },
            "catalogue": {"qwen3": {"input": 0, "output": 0}, "small": {"like": "gpt-5.5"}},
        }
        patient.env |= {"ONE_KEY": "key-of-the-first", "TWO_KEY": "key-of-the-second"}
        refused = blamed(patient.lines("model"))
        patient.env["AZURE_KEY"] = "key-of-azure"
        told = patient.lines("model")
        patient.env["TWO_KEY"] = "key-of-the-first"
        confused = blamed(patient.lines("model"))

    assert "ours: no API key: set AZURE_KEY" in refused["model"]
    assert blamed(told) == {}
    found = [line.finding for line in told]
    for name in ("one/qwen3", "two/qwen3", "ours/small", "aws/eu.anthropic.claude-opus-5-5"):
        assert any(each.startswith(name) and "calls tools" in each for each in found), name
    assert [each for each in found if "lists" in each] == [
        f"{name} lists 3 models, those configured among them; the catalogue describes all"
        for name in ("one", "two")
    ]
    assert "set TWO_KEY" in confused["model"]
    assert [sim.unexpected_requests for sim in (one, azure, bedrock)] == [[], [], []]
