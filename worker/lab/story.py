"""The script of the model in the bundled case. Its words are written here; its calls are real.

Numbers and quotes come from the tools' results, so that a broken tool is noticed.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.lab.script import Asked, Call, Say, Script, Scripted

CASE = Path(__file__).with_name("case")
"""The bundled case: a merge request that breaks a small project, and its real job logs."""

LOG = "/tmp/data/unit-tests.log"
QUESTION = "Would the fix bring back only the 23:50 boats, or does it change other days as well?"

_TRY = """\
cd /tmp/data && python3 - <<'PY'
from windows import Window, merge
evening, night = Window(1380, 1440), Window(1440, 1500)
print("overlaps:", evening.overlaps(night), "touches:", evening.touches(night))
print("merged:", merge([evening, night]))
PY"""
_COUNT = f"""\
cd /tmp/data
sed 's/merged\\[-1\\].overlaps(/merged[-1].touches(/' windows.py > fixed.py
python3 - <<'PY'
from fixed import Window, merge
print(merge([Window(1380, 1440), Window(1440, 1500)]))
print(merge([Window(0, 10), Window(20, 30)]))
PY
grep -c ' PASSED' {LOG}; grep -cE ' FAILED +\\[' {LOG}"""


def make_script() -> Script:
    """Make the script: the analysis, then the answer to `QUESTION`."""
    look = Call(
        [
            ("sandbox_exec", {"command": f"grep -nE '^E  +AssertionError|^FAILED ' {LOG}"}),
            ("sandbox_exec", {"command": _TRY}),
        ]
    )
    return Scripted(
        [
            Call([("gitlab_get_mr_details", {}), ("gitlab_list_pipeline_jobs", {})]),
            _collect,
            look,
            _conclude,
        ],
        [Call([("sandbox_exec", {"command": _COUNT})]), _answer],
    )


def _collect(asked: Asked) -> Call:
    job = find_failed_job(asked)
    requests = [
        {"source": source, "arguments": arguments, "path": path}
        for source, arguments, path in (
            ("gitlab_get_job_log", {"job_id": job["id"]}, LOG),
            ("gitlab_get_mr_diff", {}, "/tmp/data/diff.json"),
            ("gitlab_get_file", {"path": "ferrytimes/windows.py"}, "/tmp/data/windows.py"),
        )
    ]
    text = f"The job {job['name']} failed. I fetch its log, the diff and the file it changes."
    return Call([("fetch_batch_to_sandbox", {"requests": requests})], text)


def _conclude(asked: Asked) -> Say:
    job = find_failed_job(asked)
    grep, _ = [result for result in asked.results if result.name == "sandbox_exec"][-2:]
    output = json.loads(grep.content)["stdout"]
    quotes = re.findall(r"^(\d+):(.+)$", output, re.MULTILINE)[:2]
    evidence = "\n".join(f"- job {job['id']} line {line}: {text}" for line, text in quotes)
    return Say(
        f"""\
## Verdict
caused by this change

## Failed
{job["name"]} (job {job["id"]}): test_a_boat_sails_when_the_water_allows_it, 2 of its cases

## Cause
`merge` in ferrytimes/windows.py now joins windows that overlap; before, it also joined windows
that only touch. A tide that goes on over midnight is two windows that touch at 24:00, so no single
window covers the 23:50 boat any more, and it is missing from the timetable.

## Evidence
{evidence}

## What to do
Use `merged[-1].touches(window)` instead of `overlaps` in the new loop of `merge`.

## Details
In the sandbox, `merge` of the head commit left 23:00-24:00 and 24:00-25:00 as two windows. The
`links` job failed too, but it is allowed to fail.
"""
    )


def _answer(asked: Asked) -> Say:
    lines = json.loads(asked.get_last_result("sandbox_exec").content)["stdout"].splitlines()
    joined, apart, passed, failed = lines[:4]
    return Say(
        f"""\
Only the boats whose tide goes on over midnight. I tried the fix on the file still in the sandbox:

- windows that touch are joined again: `{joined}`
- windows with a gap stay apart, as before: `{apart}`

The log has {passed} passed and {failed} failed cases; those are 23:50 boats of skarholm.
"""
    )


def find_failed_job(asked: Asked) -> dict[str, Any]:
    """Return the first job that failed the pipeline, at any depth of the listing."""
    listing = json.loads(asked.get_last_result("gitlab_list_pipeline_jobs").content)
    return next(
        job
        for job in _list_objects(listing)
        if job.get("status") == "failed" and not job.get("allow_failure")
    )


def _list_objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "id" in node and "name" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _list_objects(child)
