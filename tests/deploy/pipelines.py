"""Reads `.gitlab-ci.yml` as GitLab does: which jobs a pipeline has; runs what can be run here."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.deploy.image import ROOT

FILE = ROOT / ".gitlab-ci.yml"
KEYWORDS = frozenset({"default", "include", "stages", "variables", "workflow"})

_TERM = re.compile(
    r"\s*\$(?P<name>\w+)\s*(?:(?P<op>==|!=|=~)\s*(?:\"(?P<text>[^\"]*)\"|\$(?P<other>\w+)|/(?P<pattern>.+?)/(?=\s|$)))?\s*"
)

Job = dict[str, Any]
Variables = Mapping[str, str]


@dataclass(frozen=True)
class Pipeline:
    """The file: its own keywords, and its jobs by name, with what they extend laid under them."""

    tree: dict[str, Any]
    jobs: dict[str, Job]

    def list_jobs(self, variables: Variables) -> set[str]:
        """The jobs of the pipeline that an event with these variables makes; none: no pipeline."""
        if not applies(self.tree["workflow"]["rules"], variables):
            return set()
        return {name for name, job in self.jobs.items() if applies(job.get("rules"), variables)}


def read(text: str | None = None) -> Pipeline:
    """Read the project's file, or this text."""
    tree = yaml.safe_load(FILE.read_text("utf-8") if text is None else text)
    named = {name: value for name, value in tree.items() if name not in KEYWORDS}
    whole = {name: {**named.get(job.get("extends"), {}), **job} for name, job in named.items()}
    return Pipeline(tree, {name: job for name, job in whole.items() if not name.startswith(".")})


def applies(rules: list[dict[str, str]] | None, variables: Variables) -> bool:
    """Whether one of the rules holds, or there are none. Raises ValueError for other keywords."""
    if rules is None:
        return True
    for rule in rules:
        if set(rule) != {"if"}:
            raise ValueError(f"only `if` is understood, not {sorted(rule)}")
        if holds(rule["if"], variables):
            return True
    return False


def holds(condition: str, variables: Variables) -> bool:
    """Whether a condition holds: comparisons of variables, joined by `&&`. Raises ValueError."""
    return all([_compare(term, variables) for term in condition.split("&&")])


def _compare(term: str, variables: Variables) -> bool:
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(f"not understood: {term}")
    value = variables.get(found["name"])
    if found["op"] is None:
        return bool(value)
    if found["op"] == "=~":
        return value is not None and re.search(found["pattern"], value) is not None
    other = variables.get(found["other"]) if found["other"] else found["text"]
    return (value == other) == (found["op"] == "==")


def run_job(name: str, **variables: str) -> str:
    """Run a job's lines as a runner does, but for the one that makes .venv.

    Returns the exit status, and in the next lines what was printed.
    """
    lines = [line for line in read().jobs[name]["script"] if line != ".ci/venv dev"]
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout}{done.stderr}"
