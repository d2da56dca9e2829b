import json
from dataclasses import replace
from typing import Any

import pytest

from tests.law.house import agree
from tests.simulators.gitlab import Access, DiffFile, GitLabSim, Scene
from tests.unit.conftest import fetch, files_in, subject_of, unpacked
from worker.conversation import prompts
from worker.conversation.fold_plan import weigh_request
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import merge_request, pipeline_jobs
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.base import SourceDef
from worker.gitlab.read.redactions import Redactions
from worker.gitlab.read.session_reader import Reader
from worker.settings import playbook
from worker.sources.table import SOURCES, bind_sources, write_notes
from worker.tools.arguments import schema
from worker.tools.source import DocumentKind
from worker.tools.toolbox import list_specs


def test_the_sources_are_offered_in_one_order(reader: Reader) -> None:
    order = [
        "gitlab_get_mr_details",
        "gitlab_get_mr_diff",
        "gitlab_list_mr_commits",
        "gitlab_list_mr_discussions",
        "gitlab_list_pipeline_jobs",
        "gitlab_get_job_log",
        "gitlab_get_test_report",
        "gitlab_list_artifacts",
        "gitlab_get_artifact",
        "gitlab_get_artifacts",
        "gitlab_get_file",
        "gitlab_list_files",
        "gitlab_search_code",
        "gitlab_get_source_archive",
        "gitlab_compare",
        "gitlab_get_ci_config",
        "gitlab_list_branch_pipelines",
        "gitlab_list_job_runs",
        "gitlab_get_last_green_log",
        "gitlab_list_commit_statuses",
    ]
    offered = list(bind_sources(reader))
    assert agree(offered, order, "the order in test_the_sources_are_offered_in_one_order")
    assert offered == order


def test_the_notes_of_sources_stand_in_the_order_of_the_table() -> None:
    rows = [replace(row, note=f"note {number}") for number, row in enumerate(SOURCES)]
    rows[0] = replace(rows[0], note="")
    named = ["gitlab_list_commit_statuses", "gitlab_get_mr_diff", "gitlab_get_mr_details", "other"]

    assert write_notes(named, rows).splitlines() == [
        "## Data sources",
        "- `gitlab_get_mr_diff`: note 1.",
        f"- `gitlab_list_commit_statuses`: note {len(SOURCES) - 1}.",
    ]
    assert write_notes([], rows) == write_notes(["gitlab_get_mr_details"], rows) == ""


def test_what_every_session_is_told_first_weighs_little(reader: Reader) -> None:
    """By the tokenizer that `tests.record_token_counts` names these are 4,100 tokens; our own
    estimate weighs the punctuation of schemas higher."""
    workflow = playbook.load("").for_trigger("pipeline_failed")
    sources = bind_sources(reader)
    system = prompts.write_system_prompt(write_notes(sources), workflow.text, compact=False)

    assert weigh_request(system, list_specs(sources, workflow.allows), ()) < 4_900


@pytest.mark.parametrize("row", SOURCES, ids=lambda row: str(row.name))
def test_every_source_tells_the_model_enough(row: SourceDef[Any]) -> None:
    assert 20 < len(row.description) < 300
    assert len(row.note) < 120
    assert not row.note.endswith(".")
    for name, field in schema(row.args)["properties"].items():
        assert field.get("description"), f"{row.name}: {name}"


def test_no_source_takes_a_project(reader: Reader) -> None:
    taken = {
        name
        for source in bind_sources(reader).values()
        for name in source.spec.parameters["properties"]
    }
    looked_at = {
        *("pipeline_id", "job_id", "job_name", "path", "folder", "ref", "recursive", "text"),
        *("old", "new", "straight", "branch", "sha", "first_line", "last_line"),
    }
    assert agree(taken, looked_at, "`looked_at` in this test, if it can name no project")
    for name, source in bind_sources(reader).items():
        with pytest.raises(ArgumentError, match="project_id"):
            source.fetch('{"project_id": 1}')
        assert source.spec.name == name


def test_details_hold_the_merge_request_its_pipeline_and_commits(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.mr.labels, scene.mr.description, scene.mr.draft = ["ci"], "Näher dran\n", True
    document = fetch(reader, "gitlab_get_mr_details")
    found = json.loads(document.data)
    assert (document.kind, document.gaps) == (DocumentKind.JSON, "")
    assert found["title"] == "Sum faster"
    assert found["description"] == "Näher dran\n"
    assert found["labels"] == ["ci"]
    assert found["draft"] is True
    assert found["author"] == "mara"
    assert found["pipeline"]["id"] == scene.pipeline.id
    assert found["pipeline"]["status"] == "failed"
    assert found["commits"][0]["title"] == "Sum faster"
    assert "from_a_fork" not in found


def test_details_say_what_they_leave_out(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    scene.mr.description = "d" * 20_001
    scene.mr.commits *= 101
    document = fetch(reader, "gitlab_get_mr_details")
    found = json.loads(document.data)
    assert document.gaps == (
        "commits before the newest 100; the description after 20000 characters"
    )
    assert (len(found["description"]), len(found["commits"])) == (20_000, 100)


def test_details_without_pipeline_or_commits_are_better_than_nothing(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    sim.fail_next("GET", "/pipelines/", 403)
    sim.fail_next("GET", "/commits", 500, times=3)
    document = fetch(reader, "gitlab_get_mr_details")
    assert json.loads(document.data)["title"] == "Sum faster"
    assert f"pipeline {scene.pipeline.id}: the read token's user" in document.gaps
    assert "the commits: GitLab answered 500" in document.gaps


FILES = [
    DiffFile("new.py", "@@ -0,0 +1 @@\n+x = 1\n", new_file=True),
    DiffFile("gone.py", "@@ -1 +0,0 @@\n-x = 1\n", deleted_file=True),
    DiffFile("b.py", "@@ -1 +1 @@\n-x = 1\n+x = 2\n", old_path="a.py", renamed_file=True),
    DiffFile("huge.json", "", too_large=True),
    DiffFile("lock.json", "", collapsed=True, generated_file=True),
]


def test_the_diff_is_one_unified_diff_with_a_summary(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.mr.diffs = FILES
    document = fetch(reader, "gitlab_get_mr_diff")
    assert document.kind is DocumentKind.TEXT
    assert document.data.decode() == (
        "5 files changed\n"
        "A new.py +1 -0\n"
        "D gone.py +0 -1\n"
        "R a.py -> b.py +1 -1\n"
        "M huge.json +0 -0\n"
        "M lock.json +0 -0 (generated)\n"
        "\n"
        "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n"
        "@@ -0,0 +1 @@\n+x = 1\n\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-x = 1\n\n"
        "diff --git a/a.py b/b.py\nrename from a.py\nrename to b.py\n--- a/a.py\n+++ b/b.py\n"
        "@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    )
    assert document.gaps == (
        "the diff of huge.json (too large for GitLab to show); "
        "the diff of lock.json (collapsed by GitLab)"
    )


def test_a_diff_of_many_files_is_read_to_its_end(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.mr.diffs = [DiffFile(f"f{number}.py", "@@ -1 +1 @@\n") for number in range(250)]
    document = fetch(reader, "gitlab_get_mr_diff")
    assert document.data.count(b"diff --git") == 250
    assert document.gaps == ""


def test_diffs_past_a_cap_are_named_and_not_shown(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    big = "@@ -1 +1 @@\n" + "+" * (merge_request.MAX_SIZE * 2 // 5)
    scene.mr.diffs = [DiffFile(name, big) for name in ("a.py", "b.py", "c.py")]
    document = fetch(reader, "gitlab_get_mr_diff")
    assert document.data.count(b"diff --git") == 2
    assert document.gaps == "the diff of c.py (over the size cap)"


def test_a_diff_without_end_is_not_read_to_its_end(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    big = "+" * (merge_request.MAX_SIZE // 10)
    scene.mr.diffs = [DiffFile(f"f{number}.py", big) for number in range(100)]
    document = fetch(reader, "gitlab_get_mr_diff")
    assert len(document.data) < merge_request.MAX_SIZE + 10_000
    assert document.gaps.endswith("all files after the first 20")
    assert len(sim.requests) == 1


def test_jobs_come_failed_first_and_retries_are_marked(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    sim.add_job(scene.pipeline, "lint", status="failed", allow_failure=True)
    sim.add_job(scene.pipeline, "flaky", status="failed")
    sim.add_job(scene.pipeline, "flaky", status="success")
    document = fetch(reader, "gitlab_list_pipeline_jobs")
    found = json.loads(document.data)
    assert [(job["name"], job["status"], job.get("retried", False)) for job in found["jobs"]] == [
        ("unit-tests", "failed", False),
        ("lint", "failed", False),
        ("flaky", "failed", True),
        ("build", "success", False),
        ("flaky", "success", False),
    ]
    assert found["counts"] == {"failed": 2, "success": 2}
    assert found["jobs"][0]["failure_reason"] == "script_failure"
    assert document.gaps == ""


def test_another_pipeline_of_the_project_can_be_asked_for(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    other = sim.run_pipeline(scene.mr, status="success", kind="branch")
    found = json.loads(fetch(reader, "gitlab_list_pipeline_jobs", pipeline_id=other.id).data)
    assert (found["pipeline"]["id"], found["jobs"]) == (other.id, [])


def test_a_pipeline_of_another_project_cannot_be_reached(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    other = sim.add_project("team/other")
    other.members.update(scene.project.members)
    mr = sim.open_merge_request(other, scene.developer, title="x", branch="x")
    pipeline = sim.run_pipeline(mr)
    job = sim.add_job(pipeline, "secret", status="failed", trace=b"theirs\n")
    with pytest.raises(SourceError, match=f"pipeline {pipeline.id}: not found"):
        fetch(reader, "gitlab_list_pipeline_jobs", pipeline_id=pipeline.id)
    with pytest.raises(SourceError, match=f"job {job.id}: not found"):
        fetch(reader, "gitlab_get_job_log", job_id=job.id)


def test_a_pipeline_without_failed_jobs_says_where_else_to_look(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    bare = sim.run_pipeline(scene.mr)
    document = fetch(reader, "gitlab_list_pipeline_jobs", pipeline_id=bare.id)
    assert "child pipeline" in document.gaps
    broken = sim.run_pipeline(scene.mr, yaml_errors="jobs:a config key may not be used")
    document = fetch(reader, "gitlab_list_pipeline_jobs", pipeline_id=broken.id)
    assert document.gaps == ""
    assert json.loads(document.data)["pipeline"]["yaml_errors"].startswith("jobs:a")


@pytest.mark.slow
def test_jobs_past_the_cap_are_said_to_be_missing(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    scene.pipeline.jobs *= pipeline_jobs.JOB_PAGES * 50 + 1
    document = fetch(reader, "gitlab_list_pipeline_jobs")
    assert document.gaps == f"jobs older than the newest {pipeline_jobs.JOB_PAGES * 100}"


def test_a_file_comes_as_of_the_pipelines_commit(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    sim.push(scene.mr, {"app/sum.py": b"newer\n", "häß lich?.py": b"\xff\n"})
    assert fetch(reader, "gitlab_get_file", path="app/sum.py").data.endswith(b"return 4\n")
    assert fetch(reader, "gitlab_get_file", path="app/sum.py", ref="main").data.endswith(b"(xs)\n")
    short = fetch(reader, "gitlab_get_file", path="app/sum.py", ref=reader.subject.sha[:8])
    assert short.data.endswith(b"return 4\n")
    odd = fetch(reader, "gitlab_get_file", path="häß lich?.py", ref="sum-faster")
    assert (odd.data, odd.kind) == (b"\xff\n", DocumentKind.TEXT)


def test_a_file_or_ref_that_is_not_there_is_said(reader: Reader) -> None:
    missing = r"path: there is no no\.py at [0-9a-f]{40}; gitlab_list_files names the files"
    with pytest.raises(ArgumentError, match=missing):
        fetch(reader, "gitlab_get_file", path="no.py")
    with pytest.raises(ArgumentError, match=r"the file app/sum\.py at v9: not found"):
        fetch(reader, "gitlab_get_file", path="app/sum.py", ref="v9")
    with pytest.raises(SourceError, match=r"the file app/sum\.py at 0{40}: not found"):
        fetch(reader, "gitlab_get_file", path="app/sum.py", ref="0" * 40)


def test_a_large_file_is_cut_in_its_middle(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    sim.commit(scene.project, "main", {"big.txt": b"a" * 3_000_000 + b"z" * 3_000_000})
    document = fetch(reader, "gitlab_get_file", path="big.txt", ref="main")
    assert document.data.startswith(b"aaa")
    assert document.data.endswith(b"zzz")
    assert len(document.data) < 4 * 1024 * 1024 + 100
    assert document.gaps == "1805696 of the file's 6000000 bytes, cut from its middle"


@pytest.mark.parametrize("path", ["..", ".", "a/../b", "/etc/passwd", "a//b", "a\n", "a/", "\x00"])
def test_a_path_that_could_leave_the_repository_is_refused(
    sim: GitLabSim, reader: Reader, path: str
) -> None:
    with pytest.raises(ArgumentError, match="is not the plain path"):
        fetch(reader, "gitlab_get_file", path=path)
    assert sim.requests == []


def test_a_file_path_cannot_reach_another_endpoint(sim: GitLabSim, reader: Reader) -> None:
    with pytest.raises(ArgumentError, match="not found"):
        fetch(reader, "gitlab_get_file", path="x/raw?ref=main#", ref="a&b=c#d")
    (seen,) = sim.requests
    assert seen.path.endswith("/repository/files/x%2Fraw%3Fref%3Dmain%23/raw")
    assert seen.query == "ref=a%26b%3Dc%23d"


def test_the_sources_of_a_forks_pipeline_read_the_fork(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    fork = sim.add_project("mara/service", parent=scene.project)
    fork.members.update(scene.project.members)
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="From afar", branch="far", source=fork,
        files={"far.py": b"1\n"},
    )  # fmt: skip
    pipeline = sim.run_pipeline(mr)
    job = sim.add_job(pipeline, "unit", status="failed", trace=b"far away\n")
    reader = Reader.open(client, subject_of(sim, mr, pipeline), bytes)
    assert fetch(reader, "gitlab_get_job_log", job_id=job.id).data == b"far away\n"
    assert fetch(reader, "gitlab_get_file", path="far.py").data == b"1\n"
    assert json.loads(fetch(reader, "gitlab_get_mr_details").data)["from_a_fork"] is True
    # The target branch lives in the target project only.
    assert fetch(reader, "gitlab_get_file", path="app/sum.py", ref=scene.pipeline.sha).data
    del fork.members[scene.bot.id]
    with pytest.raises(SourceError, match="may not see it"):
        fetch(reader, "gitlab_list_pipeline_jobs")


def test_a_branch_is_the_target_projects_and_not_that_of_a_fork(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    old = scene.project.refs["main"]
    sim.commit(scene.project, "main", {"app/clock.py": b"TIMEOUT = 30\n"})
    fork = sim.add_project("mara/service", parent=scene.project, public=True)
    fork.members.update(scene.project.members)
    for branch, name in (("main", "made_up.py"), ("mine", "mine.py")):
        sim.commit(fork, branch, {"app/clock.py": b"TIMEOUT = 3\n", name: b"1\n"})
    mr = sim.open_merge_request(
        scene.project, scene.developer, title="From afar", branch="far", source=fork,
        files={"far.py": b"1\n"},
    )  # fmt: skip
    reader = Reader.open(client, subject_of(sim, mr, sim.run_pipeline(mr, kind="branch")), bytes)
    clock = {"path": "app/clock.py"}
    assert fetch(reader, "gitlab_get_file", **clock, ref="main").data == b"TIMEOUT = 30\n"
    assert fetch(reader, "gitlab_get_file", **clock, ref="mine").data == b"TIMEOUT = 3\n"
    with pytest.raises(ArgumentError, match="there is no made_up"):
        fetch(reader, "gitlab_get_file", path="made_up.py", ref="main")
    assert "made_up" not in fetch(reader, "gitlab_list_files", ref="main").data.decode()
    assert "mine.py" in fetch(reader, "gitlab_list_files", ref="mine").data.decode()
    compared = fetch(reader, "gitlab_compare", old=old, new="main").data.decode()
    assert "TIMEOUT = 30" in compared
    archive = files_in(fetch(reader, "gitlab_get_source_archive", ref="main"))
    assert archive["app/clock.py"] == b"TIMEOUT = 30\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gitlab_get_file", {"path": "app/sum.py"}),
        ("gitlab_list_files", {}),
        ("gitlab_compare", {"old": "main"}),
        ("gitlab_get_source_archive", {}),
    ],
)
def test_where_the_commit_of_merged_results_is_gone_it_is_said_what_to_read(
    sim: GitLabSim, scene: Scene, client: ReadClient, name: str, arguments: dict[str, str]
) -> None:
    def read(kind: str) -> None:
        pipeline = sim.run_pipeline(scene.mr, kind=kind)
        if kind == "head":
            pipeline.sha = "0" * 40
        reader = Reader.open(client, subject_of(sim, scene.mr, pipeline), bytes)
        document = fetch(reader, name, **arguments)
        assert list(document.chunks()) if document.chunks else document.data

    with pytest.raises(SourceError, match=rf"not found.* read with ref={scene.mr.sha} \(head_sha"):
        read("merge")
    with pytest.raises(SourceError, match=r"not found, or the read token may not see it$"):
        read("head")


def test_reading_needs_no_more_than_the_read_token_and_never_writes(
    sim: GitLabSim, bound: Reader, plenty: dict[str, dict[str, Any]]
) -> None:
    wanting = {row.name for row in SOURCES if schema(row.args).get("required")}
    assert agree(wanting, plenty, "`plenty` in tests/unit/conftest.py, with its arguments")
    for name, source in bind_sources(bound).items():
        document = source.fetch(json.dumps(plenty.get(name, {})))
        assert list(document.chunks()) if document.chunks else document.data
    assert {(seen.method, seen.token, seen.status) for seen in sim.requests} == {
        ("GET", "read", 200)
    }


def test_every_string_of_every_document_is_redacted(
    sim: GitLabSim, bound: Reader, plenty: dict[str, dict[str, Any]]
) -> None:
    marked = Reader.open(bound.client, bound.subject, lambda data: data.replace(b"e", b"3"))
    for name, source in bind_sources(marked).items():
        for _ in range(2):
            document = source.fetch(json.dumps(plenty.get(name, {})))
            parts = [document.data, document.gaps.encode()]
            parts += unpacked(document) if document.chunks else []
            parts += [chunk for beside in document.side_files() for chunk in beside.chunks()]
            assert parts[0]
            # What is no string in JSON is `true`, `false` and numbers.
            assert b"e" not in b"".join(parts).replace(b"true", b"").replace(b"false", b""), name


def test_what_was_redacted_is_told_with_the_documents_own_name(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    sim.push(scene.mr, {".gitlab-ci.yml": b"URL: postgres://app:hunter22@db/test\n"})
    masks = Redactions(lambda data: data.replace(b"hunter22", b"[redacted: url-password]"))
    reader = replace(
        Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes), redact=masks
    )
    fetch(reader, "gitlab_get_file", path=".gitlab-ci.yml", ref=scene.mr.sha)
    assert list(masks.counts) == [("url-password", f"file .gitlab-ci.yml {scene.mr.sha}")]


def test_a_stranger_to_the_project_sees_nothing(sim: GitLabSim, scene: Scene) -> None:
    stranger = sim.add_user("stranger")
    client = ReadClient(sim.url, sim.add_token("read", stranger, "read_api"))
    subject = subject_of(sim, scene.mr, scene.pipeline)
    with pytest.raises(SourceError, match="the merge request: not found, or the read token may"):
        fetch(Reader.open(client, subject, bytes), "gitlab_get_mr_details")
    sim.add_member(scene.project, stranger, Access.REPORTER)
    assert fetch(Reader.open(client, subject, bytes), "gitlab_get_mr_details").data


def test_a_merge_request_that_is_gone_is_said(reader: Reader) -> None:
    gone = replace(reader.subject, mr_iid=99)
    with pytest.raises(SourceError, match="the merge request: not found"):
        fetch(Reader.open(reader.client, gone, bytes), "gitlab_get_mr_details")


def test_json_has_one_line_per_item_in_the_order_given() -> None:
    plain = Redactions(bytes)
    assert plain.redact_to_json(
        {"b": 1, "a": [{"x": "é"}, 2], "c": [], "d": {"k": [1]}}
    ).decode() == ('{"b":1,\n"a":[\n{"x":"é"},\n2\n],\n"c":[],\n"d":{"k":[1]}}\n')
    assert json.loads(plain.redact_to_json({"t": "\ud800"})) == {"t": "?"}
