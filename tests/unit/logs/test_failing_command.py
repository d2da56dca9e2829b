"""The command that ended a job, and the lines that it wrote."""

import time

import pytest

from worker.logs.failing_command import find_failing_command, keep_last_command

HEAD = (
    "Running with gitlab-runner 18.9.1 (1d9e4a72)",
    "  on build-docker-03 t3Kq8ZsVx, system ID: s_4c1f9a0d7be2",
    'Preparing the "docker" executor',
    "Using Docker executor with image node:20 ...",
)
HEALTH = (
    "*** WARNING: Service runner-1-project-104-docker-0 probably didn't start properly.",
    "Health check error:",
    'service "runner-1-project-104-docker-0-wait-for-service" timeout',
    "Service container logs:",
    "2026-11-20T09:00:02.113Z mount: permission denied (are you root?)",
    "*********",
)
SOURCES = (
    "Preparing environment",
    "Getting source from Git repository",
    "Fetching changes with git depth set to 20...",
)
STEP = 'Executing "step_script" stage of the job script'
TAIL = (
    "Running after_script",
    "Running after script...",
    "$ cat server.log",
    "fatal: No names found",
    "Uploading artifacts for failed job",
    "Uploading artifacts...",
    "WARNING: reports/*.xml: no matching files. Ensure that the artifact path is relative",
    "Cleaning up project directory and file based variables",
    "ERROR: Job failed: exit code 1",
)


def _trace(*script: str) -> list[str]:
    return [*HEAD, *HEALTH, *SOURCES, STEP, *script, *TAIL]


ROWS: dict[str, tuple[list[str], str, str, list[str]]] = {
    "the last command of the script, not one of after_script": (
        _trace("$ npm ci --no-audit", "added 3 packages", "$ npm test", "1 failing"),
        "npm test", "npm test", ["1 failing"],
    ),
    "a command that failed but was allowed to": (
        _trace("$ git describe || true", "fatal: No names found", "$ make all", "make: *** [a] 2"),
        "make all", "make all", ["make: *** [a] 2"],
    ),
    "a silent command": (
        _trace("$ npm ci", "npm warn old", "$ test -f dist/app.js"),
        "test -f dist/app.js", "test", [],
    ),
    "a collapsed multi-line command": (
        _trace("$ set -e # collapsed multi-line command", "a", "b"), "set -e", "set", ["a", "b"],
    ),
    "what yarn runs in turn": (
        _trace("$ CI=1 yarn test", "yarn run v1.22.19", "$ jest --ci", "FAIL src/a.test.js"),
        "CI=1 yarn test", "yarn test",
        ["yarn run v1.22.19", "$ jest --ci", "FAIL src/a.test.js"],
    ),
    "an example below advice": (
        _trace("$ black --check .", "would reformat a.py", "To fix it, run:", "$ black ."),
        "black --check .", "black",
        ["would reformat a.py", "To fix it, run:", "$ black ."],
    ),
    "advice that the script prints itself": (
        _trace('$ echo "Now we run:"', "Now we run:", "$ make", "broken"),
        "make", "make", ["broken"],
    ),
    "the exit code is kept and returned at the end": (
        _trace("$ pytest -q || RC=$?", "1 failed", "$ ls reports", "a.xml", "$ exit ${RC:-0}"),
        "pytest -q || RC=$?", "pytest", ["1 failed"],
    ),
    "the exit code is kept by a line of its own": (
        _trace("$ set +e", "$ ./run.sh", "broken", "$ CODE=$?", "$ cat log", "x", '$ exit "$CODE"'),
        "./run.sh", "run.sh", ["broken"],
    ),
    "a traced script": (
        _trace("$ ./ci/build.sh", "+ npm ci", "npm warn", "+ make all", "broken", "+ rc=2",
               "+ exit 2"),
        "make all", "make all", ["broken", "+ rc=2", "+ exit 2"],
    ),
    "tracing that the command turns on": (
        _trace("$ bash -ex ci.sh", "hello", "+ cp a.js b", "cp: cannot stat 'a'"),
        "cp a.js b", "cp", ["cp: cannot stat 'a'"],
    ),
    "a diff is no trace": (
        _trace("$ black --diff .", "--- a.py", "+++ a.py", "+ x = 1"),
        "black --diff .", "black", ["--- a.py", "+++ a.py", "+ x = 1"],
    ),
    "what PowerShell says of a command is no trace": (
        _trace("$ .\\build.ps1", "At C:\\builds\\build.ps1:3 char:1", "+ npm test", "+ ~~~~~~~~"),
        ".\\build.ps1", "build.ps1",
        ["At C:\\builds\\build.ps1:3 char:1", "+ npm test", "+ ~~~~~~~~"],
    ),
    "a program that prints the log of a job": (
        _trace("$ make e2e", "Cleaning up project directory and file based variables",
               "ERROR: Job failed: exit code 1", "FAIL: the job of the test failed"),
        "make e2e", "make e2e",
        ["Cleaning up project directory and file based variables",
         "ERROR: Job failed: exit code 1", "FAIL: the job of the test failed"],
    ),
    "a runner that prints no commands": (
        _trace("one", "two"), "", "", ["one", "two"],
    ),
    "another system's log": (["$ one", "1", "$ two"], "", "", ["$ one", "1", "$ two"]),
    "an old runner's log, which has no stages": (
        [*HEAD, *HEALTH, "$ make", "broken", "ERROR: Job failed: exit code 1"],
        "make", "make", ["broken"],
    ),
    "a job that reached its time limit": (
        _trace("$ make", "working", "WARNING: step_script could not run to completion because the "
               "timeout was exceeded. For more control over job and script timeouts see: https://x"),
        "make", "make", ["working"],
    ),
    "several programs": (
        _trace("$ cd app && sudo ./gradlew -q build | tee log.txt", "broken"),
        "cd app && sudo ./gradlew -q build | tee log.txt", "cd app, gradlew, tee", ["broken"],
    ),
    "an empty log": ([], "", "", []),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_command_that_ended_the_job_is_found_with_its_output(
    row: tuple[list[str], str, str, list[str]],
) -> None:
    lines, text, name, output = row
    found = find_failing_command(lines)
    assert (found.text, found.name, found.select(lines)) == (text, name, output)
    assert found.in_script


def test_a_job_whose_script_never_began_failed_in_the_runners_last_stage() -> None:
    refused = "fatal: unable to access 'https://gitlab.example/a.git/': Could not resolve host"
    sources = [*HEAD, *HEALTH, *SOURCES, refused, *TAIL[-2:]]
    found = find_failing_command(sources)
    assert (found.text, found.in_script) == ("Getting source from Git repository", False)
    assert found.select(sources) == [SOURCES[-1], refused]
    pulled = 'ERROR: Job failed: failed to pull image "nodde:20" with specified policies [always]'
    prepared = [*HEAD, *HEALTH, pulled]
    found = find_failing_command(prepared)
    assert (found.text, found.in_script) == ('Preparing the "docker" executor', False)
    assert found.select(prepared) == [pulled]


def test_of_an_excerpt_the_lines_of_the_failing_command_are_kept_with_their_numbers() -> None:
    excerpt = ["7: $ npm ci", "8: npm warn old", "…", "40: $ npm test", "41: 1 failing"]
    assert keep_last_command(excerpt) == ["41: 1 failing"]
    assert keep_last_command(["8: npm warn old", "…"]) == ["8: npm warn old", "…"]


@pytest.mark.parametrize(
    "line", ["$ make", "+ make", "Uploading artifacts for failed job", "$ exit $RC", "run: $ x:"]
)
def test_the_time_grows_with_the_number_of_lines_alone(line: str) -> None:
    def measure(lines: list[str]) -> float:
        begun = time.process_time()
        find_failing_command(lines)
        return time.process_time() - begun

    few, many = ([*HEAD, STEP, *[line] * count, "$ exit $RC"] for count in (10_000, 80_000))
    measure(few)
    assert measure(many) < 24 * max(measure(few), 0.002)
