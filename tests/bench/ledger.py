"""A pipeline's test report of 200,000 tests, as the ledger reads it: seconds and memory.

GitLab's answers come from another process, so that the memory is the reader's alone. The floor is
the arrival of the same bytes.
"""

import http.server
import json
import multiprocessing
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from worker.gitlab.ports import EndedPipeline
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.gitlab.read.test_reports import MOST_REPORT
from worker.ledger.record import PipelineTests
from worker.safety.redact import Redactor

TESTS, FAILED, SUITES = 200_000, 500, 10
GOAL_SECONDS, GOAL_MEMORY = 10, 200
LONG = 64 * 1024 * 1024
"""Characters of the output of one test, in the second report."""

_API = "/api/v4/projects/1/pipelines/1/"
_LISTED = EndedPipeline(1, "g/p", 1, "5f" * 20, "push", 1.0, "", "main", "failed", "main")


def main() -> None:
    """Print the figures of a report of many tests, and of one with a very long output."""
    with tempfile.TemporaryDirectory() as folder:
        for name, tests, output in (("many", TESTS, 4_000), ("long", 20, LONG)):
            path = Path(folder) / name
            summary = _write_report(path, tests, output)
            answers = {"jobs": b"[]", "trigger_jobs": b"[]", "test_report_summary": summary}
            size = path.stat().st_size / 2**20
            with _serve(answers, path) as url, multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, floor, before, peak, failures = pool.apply(_measure, (url,))
            print(f"{tests:,} tests, {size:.0f} MB, {failures} failures kept")
            ratio = seconds / floor
            print(f"  {seconds:.1f} s of a core (goal {GOAL_SECONDS}), {ratio:.1f} times the floor")
            print(f"  {peak - before:.0f} MB more at most (goal {GOAL_MEMORY})")
            assert seconds < GOAL_SECONDS
            assert peak - before < GOAL_MEMORY


def _measure(url: str) -> tuple[float, float, float, float, int]:
    """Return the seconds, those of the floor, the memory before and at most, and how many failures
    were kept."""
    client = ReadClient(url, "glpat-simulated-read-0001")
    begun = time.process_time()
    for _ in client.stream(f"{_API.removeprefix('/api/v4')}test_report", "it", MOST_REPORT):
        pass
    floor = time.process_time() - begun
    reader = GitLabReader(client, url, (), 30, redact=Redactor().redact_text)
    before = _get_peak()
    begun = time.process_time()
    found = reader.read_tests(1, 1, _LISTED)
    seconds = time.process_time() - begun
    assert isinstance(found, PipelineTests)
    return seconds, floor, before, _get_peak(), len(found.failures)


def _get_peak() -> float:
    """Return the most memory that this process has had, in MB: `getrusage` tells its parent's."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


class _serve:
    """A server of these answers, and of the file as the report."""

    def __init__(self, answers: Mapping[str, bytes], report: Path) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.partition("?")[0].removeprefix(_API)
                body = report.read_bytes() if name == "test_report" else answers[name]
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _write_report(path: Path, tests: int, output: int) -> bytes:
    """Write a report whose failed tests have so much output together; return its summary."""
    each = tests // SUITES
    failed = min(FAILED, tests) // SUITES
    text = "E   AssertionError: assert 3 == 4\n" + '    at line 7 of \\x1b\\"it\\"\n' * (
        output // 26
    )
    with path.open("w") as file:
        file.write('{"total_time":1,"test_suites":[')
        for suite in range(SUITES):
            counts = {"total_count": each, "failed_count": failed, "error_count": 0}
            head = json.dumps({"name": f"suite-{suite}", **counts, "skipped_count": 0})
            file.write(f'{"," if suite else ""}{head[:-1]},"test_cases":[')
            for number, case in enumerate(
                _make_cases(each, failed, text if output < LONG or not suite else "boom")
            ):
                file.write(f"{',' if number else ''}{json.dumps(case)}")
            file.write("]}")
        file.write("]}")
    suites = [
        {"name": f"suite-{suite}", "total_count": each, "failed_count": failed, "build_ids": [1]}
        for suite in range(SUITES)
    ]
    return json.dumps({"test_suites": suites}).encode()


def _make_cases(count: int, failed: int, text: str) -> Iterator[dict[str, Any]]:
    for number in range(count):
        is_bad = number < failed
        yield {
            "status": "failed" if is_bad else "success",
            "name": f"test_case_number_{number}[param-{number % 7}]",
            "classname": f"tests.unit.module_{number // 50}.TestClass",
            "file": f"tests/unit/module_{number // 50}.py",
            "execution_time": 0.0123,
            # Of what would be too much for all, one has it.
            "system_output": (text if len(text) < LONG or not number else "boom")
            if is_bad
            else None,
            "stack_trace": None,
            "recent_failures": None,
            "attachment_url": None,
        }
