import pytest

from tests.simulators.gitlab import GitLabSim, Scene
from tests.unit.conftest import fetch, files_in, told, zipped
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import archives
from worker.gitlab.read.session_reader import Reader
from worker.tools.source import DocumentKind

FILES = {
    "out/report.xml": b"<testsuite/>\n",
    "out/shot.png": b"\x89PNG\0\0",
    "log.txt": b"token: glpat-secret\n",
    "../evil": b"x",
}


@pytest.fixture
def job(scene: Scene) -> int:
    scene.job.archive = zipped(FILES)
    scene.job.artifacts_expire_at = "2026-12-01T00:00:00Z"
    return scene.job.id


def test_the_files_in_the_artifacts_are_listed_with_their_true_sizes(
    scene: Scene, reader: Reader, job: int
) -> None:
    document = fetch(reader, "gitlab_list_artifacts", job_id=job)
    found = told(document)
    assert found["files"] == [{"path": name, "bytes": len(data)} for name, data in FILES.items()]
    assert found["kept"] == [{"type": "archive", "bytes": len(scene.job.archive or b"")}]
    assert found["expires_at"] == "2026-12-01T00:00:00Z"
    assert document.gaps == ""


def test_artifacts_that_have_expired_are_said_to_have(
    scene: Scene, reader: Reader, job: int
) -> None:
    scene.job.archive = None
    listed = fetch(reader, "gitlab_list_artifacts", job_id=job)
    assert told(listed)["files"] == []
    assert listed.gaps.endswith("(they expired at 2026-12-01T00:00:00Z)")
    for name, arguments in (
        ("gitlab_get_artifact", {"job_id": job, "path": "log.txt"}),
        ("gitlab_get_artifacts", {"job_id": job}),
    ):
        with pytest.raises(SourceError, match="expired at 2026-12-01"):
            fetch(reader, name, **arguments)


def test_a_job_that_kept_nothing_says_so(scene: Scene, reader: Reader) -> None:
    document = fetch(reader, "gitlab_list_artifacts", job_id=scene.job.id)
    assert document.gaps.endswith("(it has kept none, or they were deleted)")


def test_a_long_list_is_cut(scene: Scene, reader: Reader) -> None:
    many = archives.MAX_LISTED + 1
    scene.job.archive = zipped({f"{number}.txt": b"" for number in range(many)})
    document = fetch(reader, "gitlab_list_artifacts", job_id=scene.job.id)
    assert len(told(document)["files"]) == archives.MAX_LISTED
    assert document.gaps == f"files after the first {archives.MAX_LISTED}"


def test_one_file_is_text_or_a_binary_for_the_sandbox(reader: Reader, job: int) -> None:
    text = fetch(reader, "gitlab_get_artifact", job_id=job, path="out/report.xml")
    assert (text.data, text.kind, text.chunks) == (b"<testsuite/>\n", DocumentKind.TEXT, None)
    binary = fetch(reader, "gitlab_get_artifact", job_id=job, path="out/shot.png")
    assert binary.data == b"out/shot.png: a binary file of 6 bytes\n"
    assert binary.chunks is not None
    assert list(binary.chunks()) == [FILES["out/shot.png"]]
    with pytest.raises(SourceError, match=r"no\.txt in the artifacts of job \d+: not found"):
        fetch(reader, "gitlab_get_artifact", job_id=job, path="no.txt")
    with pytest.raises(ArgumentError, match="not the plain path"):
        fetch(reader, "gitlab_get_artifact", job_id=job, path="../trace")


def test_all_files_come_as_one_redacted_archive(reader: Reader, job: int) -> None:
    clean = Reader.open(
        reader.client, reader.subject, lambda data: data.replace(b"glpat-secret", b"[redacted: x]")
    )
    document = fetch(clean, "gitlab_get_artifacts", job_id=job)
    assert b"tar -xzf" in bytes(document.data)
    found = files_in(document)
    assert found["log.txt"] == b"token: [redacted: x]\n"
    assert found["out/shot.png"] == FILES["out/shot.png"]
    assert b"'../evil'" in found["SANDPIPER-LEFT-OUT.txt"]
    assert clean.redact.counts == {("x", f"artifacts {job}"): 1}
    part = files_in(fetch(reader, "gitlab_get_artifacts", job_id=job, folder="out"))
    assert list(part) == ["out/report.xml", "out/shot.png"]


def test_artifacts_kept_in_an_object_store_are_fetched_there_without_the_token(
    sim: GitLabSim, scene: Scene, reader: Reader, job: int
) -> None:
    store = scene.job.archive
    assert store is not None
    with GitLabSim() as elsewhere:
        project = elsewhere.add_project("s/t")
        target = f"{elsewhere.url}/bucket/archive.zip?signature=x"
        sim.fail_next("GET", "/artifacts$", 302, headers={"Location": target})
        document = fetch(reader, "gitlab_list_artifacts", job_id=job)
        (seen,) = elsewhere.requests
        assert (seen.path, seen.token) == ("/bucket/archive.zip", "")
        assert document.gaps.endswith("the store it is kept in answers 404")
        assert project.path == "s/t"


def test_a_redirect_to_another_scheme_is_refused(sim: GitLabSim, reader: Reader, job: int) -> None:
    sim.fail_next("GET", "/artifacts$", 302, headers={"Location": "ftp://elsewhere/x"})
    document = fetch(reader, "gitlab_list_artifacts", job_id=job)
    assert "redirects to ftp://elsewhere/x" in document.gaps


def test_a_stream_that_breaks_off_is_an_error_for_the_model(
    sim: GitLabSim, reader: Reader, job: int
) -> None:
    document = fetch(reader, "gitlab_get_artifacts", job_id=job)
    sim.fail_next("GET", "/artifacts$", drop=True)
    assert document.chunks is not None
    with pytest.raises(SourceError, match="the artifacts of job"):
        list(document.chunks())


def test_the_source_comes_as_one_archive_for_the_sandbox(
    sim: GitLabSim, scene: Scene, reader: Reader
) -> None:
    whole = fetch(reader, "gitlab_get_source_archive")
    assert whole.data.startswith(f"A tar.gz of the repository at {scene.mr.sha}".encode())
    assert "its files are at the top, without a folder around them" in bytes(whole.data).decode()
    assert files_in(whole) == {"app/sum.py": b"def total(xs):\n    return 4\n"}
    sim.commit(scene.project, "main", {"docs/a.md": b"a\n"})
    part = fetch(reader, "gitlab_get_source_archive", ref="main", folder="docs")
    assert files_in(part) == {"docs/a.md": b"a\n"}
    gone = fetch(reader, "gitlab_get_source_archive", ref="v9")
    with pytest.raises(SourceError, match="the source archive at v9: not found"):
        files_in(gone)


def test_the_rate_limit_of_archives_is_said(sim: GitLabSim, scene: Scene, reader: Reader) -> None:
    sim.fail_next("GET", "/archive", 429, times=9, headers={"Retry-After": "0"})
    document = fetch(reader, "gitlab_get_source_archive")
    with pytest.raises(SourceError, match="rate limit is reached; try again later"):
        files_in(document)
