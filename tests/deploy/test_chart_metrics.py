"""Who reads the metrics of receiver and worker in a cluster, and where."""

import pytest

from tests.deploy.chart import of_kind, pod, render, selects
from tests.deploy.matrix import MATRIX, PROMETHEUS

pytestmark = pytest.mark.timeout(900)


def test_monitors_name_ports_that_pods_have() -> None:
    manifests = render(MATRIX["monitors"])
    (worker,) = pod(manifests, "worker").spec["containers"]
    (monitor,) = of_kind(manifests, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {each["name"] for each in worker["ports"]}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    (service,) = (
        each
        for each in of_kind(manifests, "Service")
        if selects(monitor["spec"]["selector"], each["metadata"]["labels"])
    )
    (receiver,) = pod(manifests, "receiver").spec["containers"]
    for ports in (service["spec"]["ports"], receiver["ports"]):
        assert monitor["spec"]["endpoints"][0]["port"] in {each["name"] for each in ports}
    assert not of_kind(render(MATRIX["no metrics"]), "PodMonitor")
    assert not of_kind(render(MATRIX["no metrics"]), "ServiceMonitor")


@pytest.mark.attack("supply")
def test_whoever_may_send_webhooks_may_not_read_metrics() -> None:
    for name, readers in (("least", []), ("read by Prometheus", [PROMETHEUS]), ("no metrics", [])):
        manifests = render(MATRIX[name])
        (receiver,) = pod(manifests, "receiver").spec["containers"]
        (option,) = (each for each in receiver["args"] if each.startswith("--metrics-port="))
        port = int(option.partition("=")[2])
        assert port == (0 if name == "no metrics" else 9090)
        assert port != 8080  # where everybody may come, if receiverFrom names nobody
        for component in ("receiver", "worker"):
            (policy,) = (
                each
                for each in of_kind(manifests, "NetworkPolicy")
                if each["metadata"]["name"].endswith(f"-{component}")
            )
            rules = [
                rule
                for rule in policy["spec"].get("ingress", [])
                if port in [each["port"] for each in rule["ports"]]
            ]
            assert [rule["from"] for rule in rules] == [[each] for each in readers]
