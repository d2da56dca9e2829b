"""Tokens wherever GitLab lets people write: none reaches the model, the store or the page."""

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.redaction.documents import TOKENS
from tests.flow.product import Process, Product, product
from worker.lab.gitlab.state import Commit, CommitStatus, DiffFile
from worker.lab.script import Asked, Call, Say, Scripted

pytestmark = [pytest.mark.usefixtures("bubblewrap"), pytest.mark.attack("redaction")]

ENDS = {kind: token[-12:].encode() for kind, token in TOKENS.items()}
NAMES = [*TOKENS.values()]
TEXT = "what the deployment has said:\n" + "\n".join(
    f"{kind}:\n{token}\n\t{token}\nin JSON: " + json.dumps({"log": f"failed\n{token}"})
    for kind, token in TOKENS.items()
)
OF_JOB = ("gitlab_get_job_log", "gitlab_list_artifacts", "gitlab_get_artifacts")
PLAIN = (
    "gitlab_get_mr_details",
    "gitlab_get_mr_diff",
    "gitlab_list_mr_commits",
    "gitlab_list_mr_discussions",
    "gitlab_list_pipeline_jobs",
    "gitlab_get_test_report",
    "gitlab_list_files",
    "gitlab_get_source_archive",
    "gitlab_list_branch_pipelines",
    "gitlab_list_commit_statuses",
)


def read_everything(asked: Asked) -> Call:
    """Calls of every source that has something, inline and into files, and of one that fails."""
    found = re.search(r"representative: job (\d+)", asked.first)
    assert found is not None
    job = {"job_id": int(found[1])}
    erased = {"job_id": int(found[1]) + 1}
    calls: list[tuple[str, Mapping[str, Any]]] = [(name, {}) for name in PLAIN]
    calls += [(name, job) for name in OF_JOB]
    calls += [("gitlab_get_artifact", job | {"path": "out/report.txt"})]
    calls += [("gitlab_get_job_log", erased)]
    calls += [
        ("fetch_to_sandbox", {"source": name, "arguments": given, "path": f"/tmp/data/{name}"})
        for name, given in calls
    ]
    return Call(calls)


LOOK = (
    "cd /tmp/data; for f in *; do mkdir -p x/$f; tar -xzf $f -C x/$f 2>/dev/null; done; "
    "find x | tail -40; grep -rhoE 'redacted: [a-z-]+' . | sort | uniq -c"
)


def look_at_files(asked: Asked) -> Call:
    return Call([("sandbox_exec", {"command": LOOK}), *lines_of_everything()])


def lines_of_everything() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The lines in which a token would stand, a screen each."""
    for prefix in ("glpat", "sk-", "AKIA", "ghp_", "eyJ", "hvs", "npm_", "AIza", "xoxb", "pypi"):
        yield "sandbox_exec", {"command": f"grep -rh --color=always '{prefix}' /tmp | head -c 3000"}


def conclude(asked: Asked) -> Say:
    return Say(
        "## Verdict\nunknown\n\n## Failed\nunit-tests\n\n## Cause\nNobody knows.\n\n"
        "## Evidence\n- job 999999 line 3: nothing\n\n## What to do\nLook again.\n"
    )


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    script = Scripted(
        [read_everything, look_at_files, conclude, conclude], [Say("It is not known.")]
    )
    with product(tmp_path, script, "memory://") as made:
        made.write_settings("pages: {url: 'https://sandpiper.example/p/'}\n")
        plant_tokens(made)
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []


def plant_tokens(made: Product) -> None:
    """Put every token wherever GitLab's answers hold a stranger's text."""
    mr, sim = made.scene.mr, made.gitlab
    files = {"docs/notes.md": TEXT.encode(), f"src/{NAMES[0]}.txt": TEXT.encode()}
    sim.push(mr, files, "Deploy")
    mr.title, mr.description, mr.labels = f"Fix\t{NAMES[0]}", TEXT, NAMES
    mr.commits += [
        Commit(mr.sha, f"use\t{token}", made.scene.author, sim.advance_clock(), TEXT)
        for token in NAMES
    ]
    mr.diffs.append(DiffFile(f"src/{NAMES[0]}.txt", "@@ -0,0 +1 @@\n+" + "\n+".join(NAMES)))
    sim.comment(mr, made.scene.author, TEXT)
    project = mr.source_project
    project.statuses[mr.sha] = [
        CommitStatus(
            f"ci/{token}",
            "failed",
            sim.advance_clock(),
            f"see\n{token}\n",
            f"https://ci.example/{token}",
        )
        for token in NAMES
    ]
    plant_jobs(made)


def plant_jobs(made: Product) -> None:
    """A pipeline whose jobs, logs, artifacts and tests hold every token."""
    sim = made.gitlab
    pipeline = sim.run_pipeline(made.scene.mr)
    made.scene = replace(made.scene, pipeline=pipeline)
    pipeline.yaml_errors = TEXT
    sections = "".join(
        f"section_start:1763629202:{token}\r\x1b[0K$ x\nsection_end:1763629203:{token}\r\x1b[0K\n"
        for token in NAMES
        if re.fullmatch(r"[\w.-]+", token)
    )
    trace = f'Executing "step_script" stage\n{sections}{TEXT}\nERROR: Job failed: exit code 1\n'
    job = sim.add_job(pipeline, f"unit\n{NAMES[0]}", status="failed", trace=trace.encode())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("out/report.txt", TEXT)
        for token in NAMES:
            archive.writestr(f"out/{token}.txt", f"{token}\n")
    job.archive = packed.getvalue()
    erased = sim.add_job(pipeline, f"gone\n{NAMES[1]}", status="failed", trace=b"x\n")
    erased.erased = True
    output = {"message": f"assert\n{NAMES[0]}", "log": [TEXT]}
    case = {"status": "failed", "classname": "tests", "stack_trace": TEXT}
    pipeline.test_suites = [
        {
            "name": f"unit\n{NAMES[0]}",
            "test_cases": [
                case | {"name": f"test\n{token}", "system_output": each}
                for token in NAMES
                for each in (TEXT, output)
            ],
        }
    ]


def tokens_in(data: bytes) -> set[str]:
    return {kind for kind, end in ENDS.items() if end in data}


def files_of(data: bytes, name: str = "") -> Iterator[tuple[str, bytes]]:
    """What is in a file, and in archives within archives."""
    yield name, data
    if data.startswith(b"\x1f\x8b"):
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for info in tar:
                yield name, info.name.encode("utf-8", "surrogateescape")
                content = tar.extractfile(info)
                if content is not None:
                    yield from files_of(content.read(), f"{name}/{info.name}")


def analysed_and_asked(told: Product, serve: Process) -> None:
    """An analysis, then a push with a token in its title, and a reply with one."""
    assert told.pipeline_failed().status_code == 202
    serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
    told.gitlab.push(told.scene.mr, {"a": b"1"}, f"again\t{NAMES[0]}")
    question = f"Is it this?\n{NAMES[0]}\n\\n{NAMES[1]}"
    told.gitlab.comment(told.scene.mr, told.scene.author, question, told.notes()[0].discussion_id)
    serve.until(lambda: len(told.objects("context.json")) == 2, "the answer was not stored")


def test_no_token_of_gitlab_reaches_model_store_or_page(
    told: Product, record_property: Callable[[str, object], None]
) -> None:
    with told.serve() as serve:
        analysed_and_asked(told, serve)
        link = re.search(r"\(https://sandpiper\.example/p(/sessions/[^)]*)\)", told.notes()[0].body)
        assert link is not None
        page = httpx.get(told.url + link[1])
        assert page.status_code == 200
    sent = b"\n".join(told.model.raw)
    assert len(told.model.raw) >= 4
    assert sent.count(b"[redacted: gitlab-token]") > 10
    assert tokens_in(sent) == set()
    decoded = repr([json.loads(each) for each in told.model.raw])
    assert tokens_in(decoded.encode()) == set()
    seen = {"page": page.content, "log": serve.log.read_bytes()}
    seen |= {f"note {note.id}": note.body.encode() for note in told.notes()}
    assert {name: found for name, data in seen.items() if (found := tokens_in(data))} == {}
    stored = [path for path in (told.folder / "store").rglob("*") if path.is_file()]
    leaks = [
        (name, found)
        for path in stored
        for name, data in files_of(path.read_bytes(), path.name)
        if (found := tokens_in(data))
    ]
    assert leaks == []
    assert len(told.objects("sandbox.tar.gz")) >= 1
    record_property("tried", len(TOKENS) * len(PLAIN + OF_JOB))
