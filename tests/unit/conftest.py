"""A running GitLab with one failed merge request, and a reader bound to it."""

import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline, Scene
from worker.conversation.context import Subject
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.sources.table import bind_sources
from worker.tools.source import Document


def subject_of(sim: GitLabSim, mr: MergeRequest, pipeline: Pipeline) -> Subject:
    return Subject(
        gitlab_url=sim.url,
        project_id=mr.project.id,
        project=mr.project.path,
        mr_iid=mr.iid,
        pipeline_project_id=pipeline.project.id,
        pipeline_id=pipeline.id,
        sha=pipeline.sha,
        web_url=mr.web_url,
    )


@pytest.fixture
def client(sim: GitLabSim, scene: Scene) -> ReadClient:
    return ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))


@pytest.fixture
def reader(sim: GitLabSim, scene: Scene, client: ReadClient) -> Reader:
    return Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)


def fetch(reader: Reader, name: str, **arguments: Any) -> Document:
    return bind_sources(reader)[name].fetch(json.dumps(arguments))


def told(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.data)
    return found


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def plenty(sim: GitLabSim, scene: Scene) -> dict[str, dict[str, Any]]:
    """Arguments with which every source has something to give."""
    scene.job.archive = zipped({"out/report.txt": b"1 failed\n"})
    sim.commit(scene.project, "main", {".gitlab-ci.yml": b"unit-tests: {script: pytest}\n"})
    sim.push(scene.mr, {".gitlab-ci.yml": b"unit-tests: {script: pytest -q}\n"})
    scene.pipeline.sha = scene.mr.sha
    green = sim.run_pipeline(scene.mr, status="success", kind="branch", project=scene.project)
    green.ref = "main"
    sim.add_job(green, "unit-tests", trace=b"all passed\n")
    job = {"job_id": scene.job.id}
    return {
        "gitlab_get_job_log": job,
        "gitlab_list_artifacts": job,
        "gitlab_get_artifact": job | {"path": "out/report.txt"},
        "gitlab_get_artifacts": job,
        "gitlab_get_file": {"path": "app/sum.py"},
        "gitlab_search_code": {"text": "total"},
        "gitlab_compare": {"old": "main"},
        "gitlab_list_job_runs": {"job_name": "unit-tests"},
        "gitlab_get_last_green_log": {"job_name": "unit-tests"},
    }


@pytest.fixture
def bound(reader: Reader, scene: Scene, plenty: Mapping[str, Any]) -> Reader:
    """The reader, bound to the scene as `plenty` has left it."""
    subject = replace(reader.subject, sha=scene.pipeline.sha)
    return Reader.open(reader.client, subject, bytes)


def unpacked(document: Document) -> list[bytes]:
    """The files of a document that is a tar.gz, in order."""
    return list(files_in(document).values())


def files_in(document: Document) -> dict[str, bytes]:
    assert document.chunks is not None
    packed = io.BytesIO(b"".join(document.chunks()))
    with tarfile.open(fileobj=packed, mode="r:gz") as tar:
        return {info.name: _content(tar, info) for info in tar}


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(info)
    assert content is not None
    return content.read()
