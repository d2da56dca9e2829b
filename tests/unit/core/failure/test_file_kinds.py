"""What a path says of what a change to it can break."""

import pytest

from worker.core.failure.file_kinds import (
    changes_dependency,
    is_ci,
    is_dependency,
    is_docs,
    may_configure,
)

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


@pytest.mark.parametrize(
    ("path", "line", "changes"),
    [
        ("Cargo.toml", "[[bench]]", False),
        ("Cargo.toml", 'serde = "1.0"', True),
        ("Cargo.toml", 'tokio = { version = "1", features = ["full"] }', True),
        ("package.json", '    "typescript": "^5.8.0"', True),
        ("package.json", '    "test": "vitest run"', False),
        ("pyproject.toml", '    "click>=8.2",', True),
        ("pyproject.toml", "line-length = 100", False),
        ("pyproject.toml", 'version = "1.2.0"', False),
        ("pom.xml", "      <version>3.2</version>", True),
        ("build.gradle", '    implementation "a:b:1"', True),
        ("build.gradle", "    useJUnitPlatform()", False),
        ("uv.lock", "anything", True),
        ("Dockerfile", "RUN make", True),
        ("src/app.py", 'import "x"', False),
    ],
)
def test_a_manifest_changes_what_is_installed_only_in_some_of_its_lines(
    path: str, line: str, changes: bool
) -> None:
    assert changes_dependency(path, f"@@ -1 +1,2 @@\n a\n+{line}\n") is changes


def test_a_manifest_whose_diff_is_not_known_may_change_what_is_installed() -> None:
    assert changes_dependency("Cargo.toml", "")


@pytest.mark.parametrize(
    ("path", "may"),
    [
        (".gitlab-ci.yml", True),
        ("build/pipeline.yml", True),
        ("deploy/ci/JOBS.YAML", True),
        ("Dockerfile", True),
        ("images/Containerfile.dev", True),
        ("ci/run.sh", True),
        ("app/sum.py", False),
        ("docs/yml.md", False),
    ],
)
def test_any_yaml_file_and_any_image_may_decide_how_jobs_run(path: str, may: bool) -> None:
    assert may_configure(path) is may
