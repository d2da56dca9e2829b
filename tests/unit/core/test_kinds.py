"""What a path says of what a change to it can break."""

import pytest

from worker.core.kinds import is_ci, is_dependency, is_docs

CASES = [
    (".gitlab-ci.yml", "ci"),
    ("ci/build.gitlab-ci.yml", "ci"),
    (".gitlab/ci/test.yml", "ci"),
    (".gitlab/issue_templates/bug.md", "docs"),
    (".tekton/push.yaml", "ci"),
    ("app/ci.py", ""),
    ("poetry.lock", "dependency"),
    ("web/package.json", "dependency"),
    ("requirements-dev.txt", "dependency"),
    ("images/Dockerfile.dev", "dependency"),
    ("Dockerfile", "dependency"),
    ("app/dockerfile.py", ""),
    ("docs/index.md", "docs"),
    ("README.rst", "docs"),
    ("app/sum.py", ""),
    ("", ""),
]


@pytest.mark.parametrize(("path", "kind"), CASES)
def test_a_path_is_of_one_kind(path: str, kind: str) -> None:
    kinds = {"ci": is_ci(path), "dependency": is_dependency(path), "docs": is_docs(path)}
    assert [name for name, is_it in kinds.items() if is_it] == ([kind] if kind else [])
