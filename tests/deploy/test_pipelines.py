"""The project's own pipelines: that GitLab takes the file, what runs when, and that it runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.pipelines import FILE, holds, read, run_job
from tests.deploy.version import ROOT
from tests.law.house import none
from tests.parallel import group_of, pick_groups, read_shard
from worker import __version__

PIPELINE = read()
CHECKED = {"check", "test", "package", "chart", "images"}
PUBLISHING = {"publish-images", "publish-chart", "publish-package", "sign-images", "release"}
OUTSIDE = re.compile(r"\bpush\b|\bpublish\b|\blogin\b|\bcosign\b")
"""What in a line of a script reaches a registry."""

MAIN = {"CI_DEFAULT_BRANCH": "main"}
TAG = {**MAIN, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_TAG": "v1.2.3"}
PROTECTED = {"CI_COMMIT_REF_PROTECTED": "true"}
MERGE = {**MAIN, "CI_PIPELINE_SOURCE": "merge_request_event"}
BRANCH = {**MAIN, "CI_PIPELINE_SOURCE": "push"}


def test_gitlab_s_schema_takes_the_file() -> None:
    tool = Path(sys.executable).with_name("check-jsonschema")
    command = (str(tool), "--builtin-schema", "vendor.gitlab-ci", str(FILE))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("event", "jobs"),
    [
        (MERGE, CHECKED),
        (MERGE | PROTECTED, CHECKED),
        (BRANCH | {"CI_COMMIT_BRANCH": "main"} | PROTECTED, CHECKED),
        (BRANCH | {"CI_COMMIT_BRANCH": "main", "CI_PIPELINE_SOURCE": "schedule"}, CHECKED),
        (BRANCH | {"CI_COMMIT_BRANCH": "feature"}, set()),
        (BRANCH | {"CI_COMMIT_BRANCH": "v1.2.3"} | PROTECTED, set()),
        (TAG | PROTECTED, CHECKED | PUBLISHING | {"version"}),
        (TAG, CHECKED | {"version"}),
        (TAG | {"CI_COMMIT_REF_PROTECTED": "false"}, CHECKED | {"version"}),
        (TAG | PROTECTED | {"CI_COMMIT_TAG": "v1.2"}, set()),
        (TAG | PROTECTED | {"CI_COMMIT_TAG": "try-v1.2.3"}, set()),
        (TAG | PROTECTED | {"CI_COMMIT_TAG": "v1.2.3-rc1"}, set()),
    ],
    ids=lambda each: " ".join(each.values()) if isinstance(each, dict) else "",
)
def test_only_a_protected_tag_of_a_version_publishes(event: dict[str, str], jobs: set[str]) -> None:
    assert PIPELINE.list_jobs(event) == jobs


def test_whatever_reaches_a_registry_stands_in_a_publishing_job() -> None:
    reaching = {
        name
        for name, job in PIPELINE.jobs.items()
        if "release" in job or any(OUTSIDE.search(line) for line in job["script"])
    }
    assert reaching == PUBLISHING
    for name in PUBLISHING:
        assert PIPELINE.jobs[name]["resource_group"] == "release"


def test_every_job_has_a_stage_and_takes_only_what_an_earlier_one_leaves() -> None:
    stages = PIPELINE.tree["stages"]
    places = {name: stages.index(job["stage"]) for name, job in PIPELINE.jobs.items()}
    assert set(places.values()) == set(range(len(stages)))
    for name, job in PIPELINE.jobs.items():
        for other in job.get("dependencies", ()):
            assert "artifacts" in PIPELINE.jobs[other], f"{name} takes nothing of {other}"
            assert places[other] < places[name], f"{name} does not wait for {other}"
    assert max(places[name] for name in CHECKED) < min(places[name] for name in PUBLISHING)


def test_every_variable_of_a_script_is_one_that_is_set() -> None:
    stated = {*PIPELINE.tree["variables"], "SANDPIPER_TEST_HELM", "name"}
    unknown = {
        f"{name}: ${variable}"
        for name, job in PIPELINE.jobs.items()
        for variable in re.findall(r"\$\{?(\w+)", "\n".join(job["script"]))
        if variable not in stated and not variable.startswith("CI_")
    }
    assert none(unknown)


def test_registries_are_named_by_variables_alone() -> None:
    scripts = [line for job in PIPELINE.jobs.values() for line in job["script"]]
    assert not [line for line in scripts if "://" in line or re.search(r"\w\.(?:com|io|org)", line)]


@pytest.mark.parametrize("name", PIPELINE.jobs)
def test_a_script_is_one_that_a_shell_reads_and_whose_files_are_there(name: str) -> None:
    script = "\n".join(PIPELINE.jobs[name]["script"])
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for file in re.findall(r"(?<![\w./$])(?:\.ci|helm|worker)/[\w./-]+", script):
        assert (ROOT / file).exists(), file
    for module in re.findall(r"python3? -m ([\w.]+)", script):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
    targets = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", script):
        assert f"\n{target}: " in targets, target


def test_the_chart_job_packs_the_chart(tmp_path: Path) -> None:
    if not os.environ.get("SANDPIPER_TEST_HELM"):
        pytest.skip("no Helm here: see .ci/helm.sh")
    told = run_job("chart", DIST=str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == [f"sandpiper-{__version__}.tgz"], told


def test_the_version_job_stops_what_is_not_the_package_s_version() -> None:
    told = run_job("version", CI_COMMIT_TAG="v0.0.0")
    assert told.startswith("1\nthe tag is v0.0.0, but")


def test_the_shards_of_the_test_job_are_the_whole_suite_each_test_once() -> None:
    count = PIPELINE.jobs["test"]["parallel"]
    tests = [f"tests/unit/a/test_{each}.py::test" for each in range(23)]
    tests += [f"tests/flow/test_x.py::test_{each}" for each in range(9)] + [
        "tests/law/test_z.py::t"
    ]
    parts = [pick_groups(tests, number, count) for number in range(1, count + 1)]
    assert sorted(group for part in parts for group in part) == sorted({*map(group_of, tests)})
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", ""])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a part|invalid literal"):
        read_shard(text)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ("$A", True),
        ("$EMPTY", False),
        ("$NONE", False),
        ('$A == "one"', True),
        ('$A != "one"', False),
        ("$A == $B", False),
        ('$NONE != "x"', True),
        (r"$A =~ /^o/", True),
        (r"$NONE =~ /.*/", False),
        ('$A && $B == "two"', True),
        ("$A && $NONE", False),
    ],
)
def test_conditions_are_read_as_gitlab_reads_them(condition: str, held: bool) -> None:
    assert holds(condition, {"A": "one", "B": "two", "EMPTY": ""}) is held


@pytest.mark.parametrize("condition", ["$A || $B", "A == 1", "($A)", "$A == one"])
def test_a_condition_that_is_not_understood_is_no_silent_yes(condition: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        holds(condition, {"A": "one"})


def test_the_hooks_before_a_commit_are_tools_of_the_house() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [hook["entry"].split()[0] for each in hooks for hook in each["hooks"]]
    assert entries
    bin_folder = Path(sys.executable).parent
    assert none([each for each in entries if not (bin_folder / Path(each).name).is_file()])
    assert {each["repo"] for each in hooks} == {"local"}
