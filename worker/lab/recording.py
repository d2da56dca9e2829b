"""Records a failure as a case: GitLab's data on it, read with the read token and redacted."""

import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from worker.conversation.context import Subject
from worker.errors import ConfigError, SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.merge_request import FILES_PER_PAGE
from worker.lab.cases import CASE, EXPECT, find_inside

MOST_LOG, MOST_FILE, MOST_FILES = 32 << 20, 512 << 10, 300
_PACKED = 256 << 10
"""Logs of more bytes are compressed with gzip."""

_MOST_RUNS = 5
_FAILED = ("failed", "error")

FORM = """\
# What a note on this failure has to say. Fill in what you know, and remove the rest: `eval run`
# plays no case of which nothing is filled in.
#
# caused by this change / already failing on the target branch / flaky / infrastructure / unknown /
# not enough evidence; or a list, any of which is right.
verdict: {verdict}

# Regular expressions; all of them have to be found in the cause.
cause: []

# Paths that have to be named.
files: []

# Regular expressions; one proven quote has to match one of them.
lines: []

# The cause in a sentence, for `eval run --judge`.
meaning: ""
"""


@dataclass
class Recorder:
    """Writes one case. `gaps` has a line for each thing that could not be recorded.

    `clean` removes secrets from all that is written, and may replace names.
    """

    client: ReadClient
    subject: Subject
    folder: Path
    clean: Callable[[bytes], bytes]
    gaps: list[str] = field(default_factory=list)
    _commit_words: dict[str, str] = field(default_factory=dict)

    def record(self, verdict: str = "unknown") -> None:
        """Write the case's folder. Raises SourceError, and ConfigError if it already has a case."""
        if (self.folder / CASE).exists():
            raise ConfigError(f"{self.folder / CASE} exists already: choose another folder")
        mr = self.client.one(self._merge_request, wire.MergeRequest, "the merge request")
        content = {
            "summary": "",
            "project": {"path": self.subject.project, "default_branch": mr.target_branch},
            "merge_request": self._describe_merge_request(mr),
            "pipeline": self._describe_pipeline(),
            "target_runs": list(self._describe_target_runs(mr)),
            "earlier_runs": list(self._describe_earlier_runs()),
        }
        # Clean the values, not the YAML: redaction would not see through its quoting.
        cleaned = _change_texts(content, self._clean_text)
        self._write(CASE, yaml.safe_dump(cleaned, sort_keys=False, allow_unicode=True).encode())
        if not (self.folder / EXPECT).exists():
            self._write(EXPECT, FORM.format(verdict=verdict).encode())

    @property
    def _merge_request(self) -> str:
        return f"/projects/{self.subject.project_id}/merge_requests/{self.subject.mr_iid}"

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        find_inside(self.folder, path).parent.mkdir(parents=True, exist_ok=True)
        find_inside(self.folder, path).write_bytes(data)

    def _write_cleaned(self, name: str, data: bytes) -> None:
        """Write a file of the repository, or a log, which is packed if its name says so."""
        name, data = self._clean_text(name), self.clean(data)
        packed = name.startswith("logs/") and name.endswith(".gz")
        self._write(name, gzip.compress(data, 9, mtime=0) if packed else data)

    def _clean_text(self, text: str) -> str:
        return self.clean(text.encode(errors="replace")).decode(errors="replace")

    # ---------------------------------------------------------------------------------- its files

    def _describe_merge_request(self, mr: wire.MergeRequest) -> dict[str, Any]:
        deleted, commits = self._keep_files(mr), self._list_messages()
        described = {
            "title": mr.title,
            "description": mr.description or "",
            "author": mr.author.username if mr.author else "author",
            "source_branch": mr.source_branch or "change",
        }
        more = {"deleted_files": deleted, "commits": commits}
        return described | {name: value for name, value in more.items() if value}

    def _list_messages(self) -> list[str]:
        """Return the messages of the merge request's commits, oldest first."""
        where = f"{self._merge_request}/commits"
        listed = self.client.many(where, wire.Commit, "the merge request's commits")
        if listed.more:
            self.gaps.append("the merge request's oldest commits")
        return [(each.message or each.title).strip() for each in reversed(listed.items)]

    def _keep_files(self, mr: wire.MergeRequest) -> list[str]:
        """Write the changed files before and after, and other files of the base up to a cap.

        Return the paths that the merge request deletes, and the old paths of renamed files.
        """
        base = mr.diff_refs.base_sha if mr.diff_refs else mr.target_branch
        changed: set[str] = set()
        deleted = []
        for each in self._list_changes():
            changed |= {each.new_path, each.old_path}
            if not each.new_file:
                self._keep_file("base", each.old_path, base, self.subject.project_id)
            if each.deleted_file:
                deleted.append(each.old_path)
            else:
                head = self.subject.pipeline_project_id
                self._keep_file("head", each.new_path, self.subject.sha, head)
            if each.renamed_file:
                deleted.append(each.old_path)
        for path in self._list_other_paths(base, changed):
            self._keep_file("base", path, base, self.subject.project_id)
        return deleted

    def _list_changes(self) -> Iterator[wire.DiffFile]:
        number, more = 1, True
        while more and number * FILES_PER_PAGE <= MOST_FILES:
            page = self.client.page(
                f"{self._merge_request}/diffs", wire.DiffFile, "the diff", number, FILES_PER_PAGE
            )
            yield from page.items
            number, more = number + 1, page.more
        if more:
            self.gaps.append(f"changed files after the first {MOST_FILES}")

    def _list_other_paths(self, ref: str, changed: set[str]) -> Iterator[str]:
        """Yield paths of files at `ref` that are not in `changed`, at most MOST_FILES."""
        listed = self.client.many(
            f"/projects/{self.subject.project_id}/repository/tree",
            wire.TreeEntry,
            "the repository's files",
            {"ref": ref, "recursive": "true"},
        )
        paths = [each.path for each in listed.items if each.type == "blob"]
        others = [path for path in paths if path not in changed]
        if listed.more or len(others) > MOST_FILES:
            self.gaps.append(f"files of the repository after the first {MOST_FILES}")
        yield from others[:MOST_FILES]

    def _keep_file(self, tree: str, path: str, ref: str, project: int) -> None:
        where = f"/projects/{project}/repository/files/{quote(path, safe='')}/raw"
        if path.startswith("/") or ".." in Path(path).parts:
            return
        try:
            blob = self.client.blob(where, path, MOST_FILE, {"ref": ref})
        except SourceError as error:
            self.gaps.append(f"{path}: {error}")
            return
        if blob.omitted_bytes:
            self.gaps.append(f"{path}: larger than {MOST_FILE} bytes")
            return
        self._write_cleaned(f"{tree}/{path}", blob.head)

    # ------------------------------------------------------------------------------- its pipelines

    def _describe_pipeline(self) -> dict[str, Any]:
        project, number = self.subject.pipeline_project_id, self.subject.pipeline_id
        path = f"/projects/{project}/pipelines/{number}"
        pipeline = self.client.one(path, wire.Pipeline, f"pipeline {number}")
        described: dict[str, Any] = {
            "status": pipeline.status,
            "source": _name_source(pipeline.ref),
            "jobs": self._describe_jobs(path, project, "own"),
        }
        if children := list(self._describe_children(path, project)):
            described["children"] = children
        if tests := list(self._describe_tests(path)):
            described["tests"] = tests
        return described | ({"yaml_errors": pipeline.yaml_errors} if pipeline.yaml_errors else {})

    def _describe_jobs(
        self, path: str, project: int, prefix: str, only: frozenset[str] = frozenset()
    ) -> list[dict[str, Any]]:
        """Return a pipeline's jobs, oldest first, with the logs of failed jobs.

        If `only` names jobs, return those alone, each with its log.
        """
        query = {"include_retried": "true"}
        jobs = self.client.many(f"{path}/jobs", wire.Job, "the jobs", query).items
        wanted = [job for job in jobs if not only or job.name in only]
        return [
            self._describe_job(job, project, prefix, has_log=bool(only) or job.status in _FAILED)
            for job in sorted(wanted, key=lambda j: j.id)
        ]

    def _describe_job(
        self, job: wire.Job, project: int, prefix: str, *, has_log: bool
    ) -> dict[str, Any]:
        fields = {
            "name": job.name,
            "stage": job.stage,
            "status": job.status,
            **({"failure_reason": job.failure_reason} if job.failure_reason else {}),
            **({"allow_failure": True} if job.allow_failure else {}),
            **({"erased": True} if job.erased_at else {}),
        }
        log = self._keep_log(job, project, prefix) if has_log else ""
        return fields | ({"log": log} if log else {})

    def _keep_log(self, job: wire.Job, project: int, prefix: str) -> str:
        try:
            what = f"the log of job {job.id}"
            blob = self.client.blob(f"/projects/{project}/jobs/{job.id}/trace", what, MOST_LOG)
        except SourceError as error:
            self.gaps.append(f"the log of {job.name}: {error}")
            return ""
        if not blob.size:
            return ""
        if blob.omitted_bytes:
            self.gaps.append(f"the log of {job.name}: {blob.omitted_bytes} bytes of its middle")
        number = len(list((self.folder / "logs").glob("*"))) + 1
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", job.name)[:60]
        name = f"logs/{number:02}-{prefix}-{plain}.log{'.gz' if blob.size > _PACKED else ''}"
        self._write_cleaned(name, blob.head + blob.tail)
        return name

    def _describe_children(self, path: str, project: int) -> Iterator[dict[str, Any]]:
        bridges = self.client.list_trigger_jobs(path, "the started pipelines").items
        for bridge in bridges:
            child = bridge.downstream_pipeline
            if child is None or child.project_id not in (0, project):
                self.gaps.append(f"the pipeline that {bridge.name} starts in another project")
                continue
            below = f"/projects/{project}/pipelines/{child.id}"
            jobs = self._describe_jobs(below, project, "child")
            yield {"name": bridge.name, "status": bridge.status, "jobs": jobs}

    def _describe_tests(self, path: str) -> Iterator[dict[str, Any]]:
        try:
            report = self.client.one(f"{path}/test_report", wire.TestReport, "the test report")
        except SourceError as error:
            self.gaps.append(f"the test report: {error}")
            return
        for suite in report.test_suites:
            for test in suite.test_cases:
                if test.status in _FAILED:
                    yield {
                        "name": test.name,
                        "classname": test.classname or "",
                        "status": test.status,
                        "system_output": _write_output(test.system_output),
                    }

    def _describe_target_runs(self, mr: wire.MergeRequest) -> Iterator[dict[str, Any]]:
        """Yield the target branch's newest pipelines, and those of the merge request's base commit.

        Each has only the jobs that failed in the case's own pipeline.
        """
        base = mr.diff_refs.base_sha if mr.diff_refs else ""
        project, what = f"/projects/{self.subject.project_id}", "the pipelines to compare with"
        where = project, mr.target_branch, what, _MOST_RUNS
        found = [*self.client.list_branch_pipelines(*where).items]
        if base and base not in {each.sha for each in found}:
            found += self.client.list_branch_pipelines(*where, {"sha": base}).items
        number, prefix = self.subject.project_id, mr.target_branch
        for pipeline in self._sort_runs(found):
            yield self._describe_run(pipeline, number, prefix, base)

    def _describe_earlier_runs(self) -> Iterator[dict[str, Any]]:
        """Yield the merge request's newest earlier pipelines, with the same jobs as target runs."""
        project, own = self.subject.pipeline_project_id, self.subject.pipeline_id
        listed = self._list_pipelines(f"{self._merge_request}/pipelines")
        found = [each for each in listed if each.id < own and each.project_id in (0, project)]
        for pipeline in self._sort_runs(found):
            run = self._describe_run(pipeline, project, "earlier", self.subject.sha)
            yield run | {"source": _name_source(pipeline.ref)}

    def _list_pipelines(self, where: str) -> list[wire.Pipeline]:
        what = "the pipelines to compare with"
        return list(self.client.page(where, wire.Pipeline, what, 1, _MOST_RUNS).items)

    def _sort_runs(self, found: Sequence[wire.Pipeline]) -> list[wire.Pipeline]:
        """Sort pipelines oldest first; return none if this one has no failed job to compare by."""
        return sorted(found, key=lambda each: each.id) if self._failed_names else []

    def _describe_run(
        self, pipeline: wire.Pipeline, project: int, prefix: str, own_sha: str
    ) -> dict[str, Any]:
        """Describe a pipeline to compare with: only the jobs that failed in the case's pipeline."""
        path = f"/projects/{project}/pipelines/{pipeline.id}"
        commit = "" if pipeline.sha == own_sha else self._name_commit(pipeline.sha)
        jobs = self._describe_jobs(path, project, prefix, self._failed_names)
        return {"status": pipeline.status, "commit": commit, "jobs": jobs}

    @cached_property
    def _failed_names(self) -> frozenset[str]:
        own = f"/projects/{self.subject.pipeline_project_id}/pipelines/{self.subject.pipeline_id}"
        jobs = self.client.many(f"{own}/jobs", wire.Job, "the jobs").items
        return frozenset(job.name for job in jobs if job.status in _FAILED)

    def _name_commit(self, sha: str) -> str:
        """Return a placeholder name for a commit, always the same for the same commit."""
        return self._commit_words.setdefault(sha, f"other-{len(self._commit_words) + 1}")


def _name_source(ref: str) -> str:
    kind = ref.rpartition("/")[2] if ref.startswith("refs/merge-requests/") else "branch"
    return kind if kind in ("head", "merge", "train") else "branch"


def _write_output(output: Any) -> str:
    return output if isinstance(output, str) else "" if output is None else str(output)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with every text in it changed, except keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _change_texts(each, change) for key, each in value.items()}
    return [_change_texts(each, change) for each in value] if isinstance(value, list) else value


def make_cleaner(
    redact: Callable[[bytes], bytes], names: Mapping[str, str]
) -> Callable[[bytes], bytes]:
    """Make a function that redacts data, then replaces each key of `names` with its value."""
    pairs = [(old.encode(), new.encode()) for old, new in names.items() if len(old) > 2]
    ordered: Sequence[tuple[bytes, bytes]] = sorted(pairs, key=lambda pair: -len(pair[0]))

    def clean(data: bytes) -> bytes:
        data = redact(data)
        for old, new in ordered:
            data = data.replace(old, new)
        return data

    return clean


def list_names(client: ReadClient, subject: Subject) -> dict[str, str]:
    """Map the names that reveal a case's origin to replacements. Raises SourceError."""
    where = f"/projects/{subject.project_id}/merge_requests/{subject.mr_iid}"
    author = client.one(where, wire.MergeRequest, "the merge request").author
    host = subject.gitlab_url.partition("://")[2].partition("/")[0]
    return {
        subject.project: "group/project",
        subject.project.rpartition("/")[2]: "project",
        subject.project.partition("/")[0]: "group",
        host: "gitlab.example.com",
        **({author.username: "author"} if author else {}),
    }
