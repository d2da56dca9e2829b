"""Testing Farm: a test request's state and its results, through its API. Off by default.

The API lets anybody read any request. The model names one (its id is in a job's log); it is shown
only if it tested a repository that the operator lists for the session's project.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import Field

from worker.conversation.context import Subject
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.base import RawDocument, SourceDef, present
from worker.gitlab.read.blobs import keep_ends
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.wire import Answer
from worker.safety.untrusted import one_line
from worker.sources.web import WebReader, clean_ends, get_origin
from worker.sources.xunit import MAX_CASES, Case, Report
from worker.tools.arguments import Arguments
from worker.verdict.finding import RequestFile

_MAX_XML = 64 * 1024 * 1024
MAX_LOG = 8 * 1024 * 1024
"""Bytes of one file that are kept, from its start and its end."""

MAX_READ = 128 * 1024 * 1024
"""Bytes of one file that are read at most."""

ENDED = frozenset({"complete", "error", "canceled"})
_ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_FILE = r"^[^/?#%\\\x00-\x20][^?#%\\\x00-\x1f]*$"


class _TmtTest(Answer):
    """What is tested: a git repository at a ref."""

    url: str = ""
    ref: str = ""
    name: str | None = None


class _Tested(Answer):
    """The kinds of tests; one of them is set."""

    fmf: _TmtTest | None = None
    tmt: _TmtTest | None = None
    sti: _TmtTest | None = None

    @property
    def one(self) -> _TmtTest:
        """The kind that is set; an empty test if none is."""
        return self.fmf or self.tmt or self.sti or _TmtTest()


class _Result(Answer):
    """How it ended; `xunit` is the XML itself or None, `xunit_url` where it lies."""

    overall: str = ""
    summary: str | None = None
    xunit: str | None = None
    xunit_url: str | None = None


class _RunInfo(Answer):
    """Where the run's files are."""

    artifacts: str | None = None


class _TestRequest(Answer):
    """GET /v0.1/requests/{id}."""

    id: str
    state: str = ""
    created: str | None = None
    updated: str | None = None
    test: _Tested = _Tested()
    result: _Result | None = None
    run: _RunInfo | None = None
    environments_requested: tuple[dict[str, Any], ...] | None = None


class _OfRequest(Arguments):
    """Which request."""

    request_id: str = Field(pattern=_ID, description="The request's UUID, from a job's log.")


class _OfFile(_OfRequest):
    """Which file of a request."""

    file: str = Field(
        pattern=_FILE,
        max_length=500,
        description="Its path below the request's artifacts, from testing_farm_get_results; "
        "`pipeline.log` tells of the whole run.",
    )


class _Farm:
    """Reads test requests for the sessions of configured projects.

    `repositories` maps a project's path to globs of the git URLs whose tests it may look at;
    `results` reads from the host that stores results.
    """

    def __init__(
        self,
        api: WebReader,
        results: WebReader,
        results_url: str,
        repositories: Mapping[str, Sequence[str]],
    ) -> None:
        self._api = api
        self._results = results
        self._results_url = results_url.rstrip("/")
        self._repositories = {
            project.lower(): tuple(glob.lower() for glob in globs)
            for project, globs in repositories.items()
        }

    def applies(self, subject: Subject) -> bool:
        """Whether the session's project has repositories listed."""
        return subject.project.lower() in self._repositories

    def describe_request(self, args: _OfRequest, reader: Reader) -> RawDocument:
        """Return the request's state and outcome as JSON."""
        found = self._read_request(args.request_id, reader.subject)
        result = found.result or _Result()
        tested, environments = found.test.one, []
        for each in found.environments_requested or ():
            system = each.get("os")
            compose = system.get("compose") if isinstance(system, dict) else None
            environments.append(present(arch=each.get("arch"), compose=compose))
        content = present(
            id=found.id,
            state=found.state,
            overall=result.overall,
            summary=one_line(result.summary or "", 2000),
            tested=present(url=tested.url, ref=tested.ref, plan=tested.name),
            created=found.created,
            updated=found.updated,
            environments=environments,
            artifacts=found.run.artifacts if found.run else None,
            has_results=bool(result.xunit or result.xunit_url),
        )
        return RawDocument(content, final=found.state in ENDED)

    def list_failed_tests(self, args: _OfRequest, reader: Reader) -> RawDocument:
        """Return counts, and the tests that failed or ended in an error, as JSON."""
        found = self._read_request(args.request_id, reader.subject)
        what = f"the results of request {found.id}"
        report = Report().read(self._read_xml(found, what), what)
        bad = report.counts["failed"] + report.counts["error"]
        base = self._find_artifacts_url(found)
        failed = [case.describe() | present(logs=_list_files(case, base)) for case in report.bad]
        content = {"counts": report.counts, "failed": failed}
        missing = f"{bad - MAX_CASES} more failed tests" if bad > MAX_CASES else ""
        return RawDocument(content, missing)

    def read_file(self, args: _OfFile, reader: Reader) -> RawDocument:
        """Return a file from the request's artifacts, as a log."""
        found = self._read_request(args.request_id, reader.subject)
        what = f"the file {args.file} of request {found.id}"
        if ".." in args.file.split("/"):
            raise ArgumentError(f"file: {args.file!r} is not the plain path of a file")
        base = self._find_artifacts_url(found)
        if not base:
            raise SourceError(f"{what}: the request has left no files (it is {found.state})")
        path = f"{base}/{quote(args.file)}"
        read = self._download(path.removeprefix(self._results_url), what, MAX_READ)
        log, missing = clean_ends(keep_ends(read, MAX_LOG), what)
        return RawDocument(
            log,
            missing,
            final=found.state in ENDED,
            is_log=True,
            place=RequestFile(args.request_id, args.file),
            url=path,
        )

    def _find_artifacts_url(self, found: _TestRequest) -> str:
        """Return the URL of a request's artifacts, "" if there is none that the operator allows."""
        url = (found.run.artifacts if found.run else None) or ""
        return url.rstrip("/") if self._is_allowed(url) else ""

    def _is_allowed(self, url: str) -> bool:
        """Whether the URL is below the results URL, without escapes, query or dot segments."""
        same = get_origin(url) == get_origin(self._results_url) and url.startswith(
            f"{self._results_url}/"
        )
        return same and not re.search(r"[?#%\\\s]|/\.\.?(?:/|$)", url)

    def _read_request(self, request_id: str, subject: Subject) -> _TestRequest:
        what = f"request {request_id}"
        found = self._api.one(f"/v0.1/requests/{request_id}", _TestRequest, what)
        url = found.test.one.url.lower().removesuffix(".git")
        globs = self._repositories[subject.project.lower()]
        if not any(fnmatch.fnmatchcase(url, glob.removesuffix(".git")) for glob in globs):
            raise SourceError(f"{what} tests a repository this session may not look at")
        return found

    def _read_xml(self, found: _TestRequest, what: str) -> Iterator[bytes]:
        result = found.result or _Result()
        if result.xunit:
            return iter([result.xunit.encode(errors="replace")])
        url = result.xunit_url or ""
        if not url:
            raise SourceError(f"{what}: none yet (the request is {found.state})")
        if not self._is_allowed(url):
            raise SourceError(f"{what}: they lie at {url[:200]!r}, not where the operator allows")
        return self._download(url.removeprefix(self._results_url), what, _MAX_XML)

    def _download(self, path: str, what: str, cap: int) -> Iterator[bytes]:
        try:
            yield from self._results.chunks(path, what, cap)
        except NotFound as error:
            raise SourceError(f"{error}: results are kept for some months only") from error


def open_testing_farm(
    url: str, results_url: str, token: str, repositories: Mapping[str, Sequence[str]]
) -> tuple[SourceDef[Any], ...]:
    """Return the rows, none without `repositories`. The token goes to `url` only."""
    if not repositories:
        return ()
    api = WebReader(url, "Testing Farm", token=token, variable="TESTING_FARM_API_TOKEN")
    files = WebReader(results_url, "Testing Farm's results")
    farm = _Farm(api, files, results_url, repositories)
    request = SourceDef(
        name="testing_farm_get_request",
        description="A Testing Farm request: state, overall result, what was tested and where.",
        args=_OfRequest,
        fetch=farm.describe_request,
        applies=farm.applies,
    )
    results = SourceDef(
        name="testing_farm_get_results",
        description="A Testing Farm request's results: counts, failed tests, files it left.",
        args=_OfRequest,
        fetch=farm.list_failed_tests,
        applies=farm.applies,
    )
    log = SourceDef(
        name="testing_farm_get_log",
        description=("A file that a Testing Farm request has left, such as a test's output."),
        args=_OfFile,
        fetch=farm.read_file,
        note="quote a line of it as `testing farm REQUEST FILE line 12: text` (`grep -n`)",
        applies=farm.applies,
        timeout=120.0,
    )
    return request, results, log


def _list_files(case: Case, base: str) -> list[str]:
    """Return the paths below `base` of the files that a test has left."""
    found = (href.removeprefix("./").removeprefix(f"{base}/") for href in case.logs)
    # A path without a file extension is a folder.
    paths = (path for path in found if re.match(_FILE, path) and "://" not in path)
    return [path for path in paths if "." in path.rpartition("/")[2]] if base else []
