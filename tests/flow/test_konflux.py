"""A pipeline that is red for Konflux and Testing Farm: their logs are found, quoted and proven,
also when the pod is long gone and another process answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.clusters import Cluster, TestingFarm
from tests.flow import quotes
from tests.flow.product import Product, product
from tests.simulators.gitlab import CommitStatus
from worker.lab.script import Answer, Asked, Call, Say

pytestmark = pytest.mark.usefixtures("bubblewrap")

PAC = "pipelinesascode.tekton.dev"
RUN, TASK = "app-on-pull-request-x7k2p", "app-on-pull-request-x7k2p-clair-scan"
REQUEST = "0a1b2c3d-0000-4000-8000-000000000001"
UI = "https://konflux.example"
PAGE = f"{UI}/ns/team-tenant/pipelinerun/{RUN}/logs/clair-scan"
OUTPUT = "work-all/plans/all/execute/data/guest/default-0/install/output.txt"
SCAN = [
    *(f"clair-action: layer {number} of 400 matched" for number in range(1, 401)),
    "Error: clair-action: scan of quay.io/team/app:on-pr-4711 timed out after 300s",
    "pkg/report/report.go:118: context deadline exceeded",
    "clair-action: giving up",
]
BROKEN, WHERE = SCAN[400:402]
INSTALL = ["tmt: installing app-1.2-3", "dnf: Error: Timeout was reached for mirror.example"]
FINDING = f"""\
## Verdict
infrastructure

## Failed
konflux/app-on-pull-request, task clair-scan

## Cause
The vulnerability database did not answer, so the scan ran into its time limit of 300 s.

## Evidence
- konflux {TASK} scan lines LINE-NEXT: {BROKEN}
  {WHERE}
- testing farm {REQUEST} {OUTPUT} line 2: {INSTALL[1]}

## What to do
Run `/retest`; nothing in this change needs mending.
"""
REPLY = f"""\
It timed out in two steps:

1. the scan began
2. konflux {TASK} scan line LINE: {BROKEN}
3. testing farm {REQUEST} {OUTPUT} line 2: {INSTALL[1]}
4. and nobody retried it
"""


class Model:
    """Finds the log of the failed step, then answers; by then the pod is gone."""

    def __init__(self, cluster: Cluster, files: TestingFarm) -> None:
        self.asked: list[Asked] = []
        self._cluster, self._files = cluster, files

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if asked.turn:
            return Say(self._numbered(asked, REPLY))
        steps = (self._runs, self._tasks, self._logs, self._search, self._answer)
        return steps[min(len(asked.results), len(steps) - 1)](asked)

    def _runs(self, asked: Asked) -> Answer:
        return Call([("konflux_list_pipelineruns", {})])

    def _tasks(self, asked: Asked) -> Answer:
        runs = json.loads(asked.results[-1].content)["result"]["pipeline_runs"]
        return Call([("konflux_list_taskruns", {"pipeline_run": runs[0]["name"]})])

    def _logs(self, asked: Asked) -> Answer:
        task = json.loads(asked.results[-1].content)["result"]["task_runs"][0]
        wanted = {
            "konflux_get_pod_log": {"task_run": task["name"]},
            "testing_farm_get_log": {"request_id": REQUEST, "file": OUTPUT},
        }
        requests = [
            {"source": source, "arguments": arguments, "path": f"/tmp/data/{source}.log"}
            for source, arguments in wanted.items()
        ]
        return Call([("fetch_batch_to_sandbox", {"requests": requests})])

    def _search(self, asked: Asked) -> Answer:
        self._cluster.objects["taskruns"].clear()
        self._cluster.logs.clear()
        self._files.files.clear()
        command = "grep -n 'timed out' /tmp/data/konflux_get_pod_log.log"
        return Call([("sandbox_exec", {"command": command})])

    def _answer(self, asked: Asked) -> Answer:
        return Say(self._numbered(asked, FINDING))

    def _numbered(self, asked: Asked, text: str) -> str:
        found = json.loads(asked.get_last_result("sandbox_exec").content)["stdout"]
        line = int(found.partition(":")[0])
        return text.replace("LINE", str(line)).replace("NEXT", str(line + 1))


@contextmanager
def told(folder: Path) -> Iterator[tuple[Product, Model]]:
    """The bundled case, whose jobs have passed, with its outside systems."""
    with (
        Cluster("team-tenant", token="sa-token-1") as cluster,
        TestingFarm(token="tf-token-1") as farm,
        TestingFarm() as files,
    ):
        assert isinstance(cluster, Cluster)
        assert isinstance(farm, TestingFarm)
        assert isinstance(files, TestingFarm)
        model = Model(cluster, files)
        with product(folder, model, "memory://") as made:
            configure(made, cluster, farm, files)
            fill(made, cluster, farm, files)
            yield made, model
            for each in (made.gitlab, made.model, cluster, farm, files):
                assert each.unexpected_requests == []


def configure(made: Product, cluster: Cluster, farm: TestingFarm, files: TestingFarm) -> None:
    project = made.scene.mr.project.path
    tenant = {"namespace": "team-tenant", "repository": "app"}
    sources = {
        "konflux": {"url": cluster.url, "ui_url": UI, "projects": {project: tenant}},
        "testing_farm": {
            "url": farm.url,
            "results_url": f"{files.url}/results",
            "repositories": {project: ["https://gitlab.example/team/*"]},
        },
    }
    made.write_settings(yaml.safe_dump({"sources": sources}))
    made.env |= {"KONFLUX_TOKEN": "sa-token-1", "TESTING_FARM_API_TOKEN": "tf-token-1"}


def fill(made: Product, cluster: Cluster, farm: TestingFarm, files: TestingFarm) -> None:
    """What has failed, as each system has it."""
    for job in made.scene.pipeline.jobs:
        job.status, job.failure_reason = "success", None
    sha = made.scene.pipeline.sha
    said = CommitStatus("konflux/app-on-pull-request", "failed", "", "1 of 9 tasks failed", PAGE)
    made.scene.mr.source_project.statuses[sha] = [said]
    condition = {"type": "Succeeded", "status": "False", "reason": "Failed", "message": "x"}
    labels = {f"{PAC}/sha": sha, f"{PAC}/pull-request": str(made.scene.mr.iid)}
    task = {"tekton.dev/pipelineRun": RUN, "tekton.dev/pipelineTask": "clair-scan"}
    cluster.add("pipelineruns", RUN, labels, conditions=[condition])
    steps = [
        {"name": "fetch", "container": "step-fetch", "terminated": {"exitCode": 0}},
        {"name": "scan", "container": "step-scan", "terminated": {"exitCode": 1}},
    ]
    cluster.add("taskruns", TASK, labels | task, conditions=[condition], steps=steps, podName="p-1")
    cluster.logs["p-1", "step-scan"] = "\n".join([*SCAN, ""]).encode()
    base = f"{files.url}/results/{REQUEST}"
    farm.requests[REQUEST] = {
        "id": REQUEST,
        "state": "complete",
        "test": {"fmf": {"url": "https://gitlab.example/team/app", "ref": "main"}},
        "run": {"artifacts": base},
    }
    files.files[f"/results/{REQUEST}/{OUTPUT}"] = "\n".join([*INSTALL, ""]).encode()
    made.outside |= {PAGE: SCAN, f"{base}/{OUTPUT}": INSTALL}


def test_a_konflux_failure_is_told_with_proven_quotes_also_after_the_pod_is_gone(
    tmp_path: Path,
) -> None:
    with told(tmp_path) as (made, model):
        with made.serve() as serve:
            made.pipeline_failed()
            serve.until(lambda: made.objects("context.json"), "the analysis was not stored")
        (note,) = made.notes()
        assert "could not be proven" not in note.body
        assert "Infrastructure" in note.body.split("\n\n")[1]
        found = quotes.check(made.gitlab, note.body, made.outside)
        assert {each.url for each in found} == set(made.outside)
        assert any(each.texts == (BROKEN, WHERE) for each in found), note.body
        assert "Group 1: konflux/app-on-pull-request" in model.asked[0].first
        assert f"another system: {PAGE}" in model.asked[0].first
        assert len(made.model.requests) == 5
        (kept,) = made.objects("evidence.json")
        assert BROKEN not in kept.read_text()
        with made.serve() as serve:
            made.gitlab.comment(made.scene.mr, made.scene.author, "Where?", note.discussion_id)
            serve.until(lambda: len(made.objects("context.json")) == 2, "no reply was stored")
        _, reply = made.notes()
        assert "could not be proven" not in reply.body
        assert [each.url for each in quotes.check(made.gitlab, reply.body, made.outside)] == list(
            made.outside
        )
        shown = [line[:2] for line in reply.body.split("\n") if line[:2].strip(".").isdigit()]
        assert shown == ["1.", "2.", "3.", "4."]
