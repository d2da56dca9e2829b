"""What is the Kubernetes driver's own: failed starts, the proof of isolation, the reaper.

The contract and the escape suites hold it too; those run on a real cluster as well.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sandbox.base import Sandbox, SandboxGone, SandboxRefused, SandboxUnavailable
from sandbox.kubernetes.cluster import Cluster, PodSettings
from sandbox.kubernetes.driver import KubernetesDriver, remove_stale_pods
from sandbox.spec import ContainerSpec
from tests.contract.sandbox_relay import certificates, relay
from tests.simulators.kubernetes import KubernetesSim

SESSION = "adopted-session"


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesSim]:
    """A simulated cluster in this process, so that a test can change it."""
    with KubernetesSim() as running:
        monkeypatch.setenv("KUBECONFIG", str(running.write_kubeconfig(tmp_path / "config")))
        yield running
        assert running.unexpected_requests == []
        assert running.pods == {}


@pytest.fixture
def driver(sim: KubernetesSim, container_spec: ContainerSpec) -> KubernetesDriver:
    return KubernetesDriver(container_spec)


def said(sandbox: Sandbox, command: str) -> str:
    return sandbox.exec(command, timeout=20, number=1).stdout.preview.strip()


# ------------------------------------------------------------------------------- starts that fail


def test_a_check_creates_nothing(driver: KubernetesDriver, sim: KubernetesSim) -> None:
    driver.check()
    assert [method for method, _ in sim.requests] == ["POST"]


_CHECKS_AT_ONCE = """
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from sandbox.kubernetes.driver import KubernetesDriver
from sandbox.spec import ContainerSpec

def slow_down(frame, event, arg):
    if frame.f_code.co_name == "_setup":
        time.sleep(0.001)
        return slow_down

def check(_):
    driver = KubernetesDriver(ContainerSpec())
    together.wait()
    driver.check()

threading.settrace(slow_down)
together = threading.Barrier(4)
with ThreadPoolExecutor(4) as pool:
    list(pool.map(check, range(4)))
"""


def test_the_first_pods_of_a_process_are_created_at_once(sim: KubernetesSim) -> None:
    """The client library sets up its classes at their first use (`_setup`), without a lock."""
    command = [sys.executable, "-c", _CHECKS_AT_ONCE]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stderr == ""
    assert [method for method, _ in sim.requests] == ["POST"] * 4


def test_a_missing_right_names_the_role(driver: KubernetesDriver, sim: KubernetesSim) -> None:
    sim.refusals["POST"] = 'pods is forbidden: User "worker" cannot create resource "pods"'
    for start in (driver.check, lambda: driver.start("refused")):
        with pytest.raises(SandboxRefused, match=r"cannot create resource.*the chart's Role"):
            start()


def test_a_right_to_exec_that_is_missing_leaves_no_pod(
    driver: KubernetesDriver, sim: KubernetesSim
) -> None:
    sim.refusals["EXEC"] = "pods/exec is forbidden"
    with pytest.raises(SandboxUnavailable, match="pods/exec is forbidden"):
        driver.start("refused")


def test_an_image_that_cannot_be_pulled_is_named_at_once(
    sim: KubernetesSim, container_spec: ContainerSpec
) -> None:
    missing = replace(container_spec, image="registry.example.com/none:1")
    began = time.monotonic()
    with pytest.raises(SandboxUnavailable, match=r"ErrImagePull: registry\.example\.com/none:1"):
        KubernetesDriver(missing).start("missing")
    assert time.monotonic() - began < 20


def test_a_full_quota_is_named(driver: KubernetesDriver, sim: KubernetesSim) -> None:
    sim.quota = 0
    with pytest.raises(
        SandboxUnavailable, match=r"exceeded quota: sandboxes, used: pods=0"
    ) as full:
        driver.start("full")
    assert not isinstance(full.value, SandboxRefused)  # it is worth waiting for


def test_a_pod_that_no_node_takes_says_what_it_waits_for(
    sim: KubernetesSim, container_spec: ContainerSpec
) -> None:
    sim.unschedulable = "0/3 nodes are available: 3 Insufficient memory."
    driver = KubernetesDriver(container_spec, settings=PodSettings(start_seconds=1))
    with pytest.raises(SandboxUnavailable, match=r"not started in 1 s: .*Insufficient memory"):
        driver.start("waiting")


def test_no_cluster_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SandboxUnavailable, match=r"no cluster is configured.*set KUBECONFIG"):
        KubernetesDriver(ContainerSpec()).check()


@pytest.mark.parametrize("content", ["", "- a list", "a: [", "clusters: 3\ncontexts: 3\n"])
def test_a_configuration_of_another_content_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    (tmp_path / "config").write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(SandboxUnavailable, match=r"no cluster is configured.*set KUBECONFIG"):
        KubernetesDriver(ContainerSpec()).check()


def test_an_api_server_that_is_away_is_named(
    driver: KubernetesDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = Path(os.environ["KUBECONFIG"]).read_text()
    server = next(line for line in text.splitlines() if "server:" in line)
    (tmp_path / "away").write_text(text.replace(server, "    server: http://127.0.0.1:9"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "away"))
    with pytest.raises(
        SandboxUnavailable,
        match=r"the API server http://127\.0\.0\.1:9 does not answer: nothing listens",
    ):
        driver.start("away")


# --------------------------------------------------------------------------- the proof of isolation


def test_a_pod_that_reaches_something_is_refused_before_a_command(
    sim: KubernetesSim, container_spec: ContainerSpec
) -> None:
    """Its own loopback refuses a connection, as an address that can be reached would."""
    driver = KubernetesDriver(
        container_spec,
        settings=PodSettings(policy_seconds=1),
        targets=lambda cluster: ["10.255.255.1:443", "127.0.0.1:9", "[::1]:53"],
    )
    with pytest.raises(SandboxRefused, match=r"reaches 127\.0\.0\.1:9.*no network policy"):
        driver.start("open")


def test_the_proof_tries_what_a_sandbox_must_not_reach(
    driver: KubernetesDriver, sim: KubernetesSim
) -> None:
    asked: list[str] = []
    sim.exec_listeners.append(asked.append)
    with driver.start("proof"):
        proof = asked[0]
    assert "isolation.py" in proof
    assert "169.254.169.254:80" in proof
    assert "1.1.1.1:443" in proof
    assert len(asked) == 1


def test_an_adopted_pod_proves_its_isolation_again(
    driver: KubernetesDriver, sim: KubernetesSim, container_spec: ContainerSpec
) -> None:
    left = driver.start(SESSION)
    suspicious = KubernetesDriver(
        container_spec,
        settings=PodSettings(policy_seconds=0),
        targets=lambda cluster: ["127.0.0.1:9"],
    )
    assert suspicious.adopt(SESSION) is None
    with pytest.raises(SandboxGone):
        said(left, "true")
    left.close()


# ------------------------------------------------------------------------------------ ends of a pod


def test_a_pod_that_is_deleted_is_gone_and_says_so(
    driver: KubernetesDriver, sim: KubernetesSim
) -> None:
    with driver.start("deleted") as sandbox, closing(Cluster()) as cluster:
        assert said(sandbox, "echo fine") == "fine"
        cluster.delete_pod(sandbox.pod)
        with pytest.raises(SandboxGone):
            said(sandbox, "sleep 20")


def test_a_token_that_was_replaced_is_read_anew(
    driver: KubernetesDriver, sim: KubernetesSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service account's token is a file that the kubelet replaces."""
    account = tmp_path / "token"
    account.write_text(sim.token)
    config = Path(os.environ["KUBECONFIG"])
    config.write_text(config.read_text().replace(f"token: {sim.token}", f"tokenFile: {account}"))
    with driver.start("rotated") as sandbox:
        sim.token = "the-next-token"
        account.write_text(sim.token)
        assert said(sandbox, "kill -9 $PPID") == ""  # the next runner needs a new connection
        assert said(sandbox, "echo on") == "on"


def test_tls_with_certificates_on_both_sides(
    sim: KubernetesSim, container_spec: ContainerSpec, tmp_path: Path
) -> None:
    noise = random.Random(1).randbytes(3 << 20)
    config = Path(os.environ["KUBECONFIG"])
    stored = yaml.safe_load(config.read_text())
    server = stored["clusters"][0]["cluster"]["server"]
    with relay(certificates(tmp_path), to=server.replace("http", "tcp")) as port:
        stored["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority": str(tmp_path / "ca.pem"),
        }
        pair = {"client-certificate": "cert.pem", "client-key": "key.pem"}
        stored["users"][0]["user"] |= {key: str(tmp_path / name) for key, name in pair.items()}
        config.write_text(yaml.safe_dump(stored))
        with KubernetesDriver(container_spec).start("tls") as sandbox:
            sandbox.put("/tmp/data/noise", [noise])
            assert sandbox.get("/tmp/data/noise", limit=len(noise)) == noise
            assert said(sandbox, "seq 1 2000 | wc -l") == "2000"
            assert sandbox.has_session()


# --------------------------------------------------------------------------------------- the reaper


def test_old_pods_are_removed_and_young_ones_stay(
    driver: KubernetesDriver, sim: KubernetesSim
) -> None:
    with driver.start("young") as sandbox:
        assert remove_stale_pods(60) == []
        assert remove_stale_pods(-1, session="another") == []
        assert said(sandbox, "echo here") == "here"
        assert remove_stale_pods(-1, session="young") == ["young"]
        assert sim.pods == {}
