"""What kind of file a path is, which tells what a change to it can break. Pure."""

import re

MODULES = frozenset(
    {".py", ".pyi", ".pyx", ".java", ".kt", ".scala", ".groovy", ".rs", ".clj"}
    | {".ex", ".exs", ".hs", ".erl", ".cs", ".swift"}
)
"""The suffixes of files that a dotted name may mean."""

IMPORTED = frozenset(
    {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte", ".css", ".scss", ".json"}
)
"""The suffixes of files that are imported by their path."""

TESTABLE = (MODULES | IMPORTED | {".go", ".rb", ".php", ".c", ".cc", ".cpp"}) - {
    *(".css", ".scss", ".json")
}
"""The suffixes of source files, which may have tests."""

_CI = re.compile(
    r"(?:^|/)(?:\.gitlab-ci[^/]{0,80}|[^/]{1,80}\.gitlab-ci|[^/]{0,80}gitlab-ci[^/]{0,80})\.ya?ml$"
    r"|^\.gitlab/(?!issue_templates/|merge_request_templates/)|^\.?ci/|^\.tekton/",
    re.IGNORECASE,
)
_DOCS = (".md", ".rst", ".adoc", ".txt", ".markdown", ".png", ".svg", ".jpg", ".gif")
_MANIFESTS = frozenset(
    {"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"}
    | {"pyproject.toml", "poetry.lock", "uv.lock", "pdm.lock", "pipfile", "pipfile.lock"}
    | {"setup.py", "setup.cfg", "constraints.txt", "environment.yml", "go.mod", "go.sum"}
    | {"cargo.toml", "cargo.lock", "gemfile", "gemfile.lock", "composer.json", "composer.lock"}
    | {"pom.xml", "build.gradle", "build.gradle.kts", "gradle.lockfile", "libs.versions.toml"}
    | {"mix.exs", "mix.lock", "packages.lock.json", "directory.packages.props", "build.sbt"}
    | {"dockerfile", "containerfile", ".tool-versions", ".python-version", ".nvmrc"}
)


_REQUIREMENTS = re.compile(
    r"requirements[^/]{0,80}\.(?:txt|in)$|(?:^|/)requirements/[^/]{1,80}\.(?:txt|in)$|(?:Docker|Container)file\.[^/]{1,80}$|\.[Dd]ockerfile$"
)


def is_ci(path: str) -> bool:
    """Whether a file is part of the CI configuration, judged by its path."""
    return _CI.search(path[:500]) is not None


def is_dependency(path: str) -> bool:
    """Whether a file defines what is installed: a manifest, a lock file, a Dockerfile."""
    name = path.rpartition("/")[2].lower()
    return name in _MANIFESTS or _REQUIREMENTS.search(path[-200:]) is not None


def is_image(path: str) -> bool:
    """Whether a file builds an image."""
    return "dockerfile" in path.lower() or "containerfile" in path.lower()


def may_configure(path: str) -> bool:
    """Whether a file may decide how jobs run, as far as its path tells."""
    return may_choose_runner(path) or is_image(path)


_CONFIGURATION = re.compile(r"\.(?:ya?ml|jsonnet|libsonnet|cue|dhall)(?:\.\w{1,20})?$")


def may_choose_runner(path: str) -> bool:
    """Whether a file may decide which runners may take jobs, as far as its path tells.

    A project may keep its CI configuration, and what that includes or is generated from, under any
    name: so any YAML file, and any template of one, may be part of it.
    """
    return is_ci(path) or _CONFIGURATION.search(path[-200:].lower()) is not None


def is_lock(path: str) -> bool:
    """Whether a file is a lock file, whose lines tools number in their own way."""
    name = path.rpartition("/")[2].lower()
    return name.endswith((".lock", "-lock.json", "-lock.yaml", ".lockfile")) or name == "go.sum"


def is_docs(path: str) -> bool:
    """Whether a file is prose or a picture."""
    name = path.rpartition("/")[2]
    return name.lower().endswith(_DOCS) and name != "CMakeLists.txt" and not is_dependency(path)


_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testdata|fixtures)/"
    r"|(?:^|/)(?:test_[^/]{1,200}|conftest\.py)$"
    r"|(?:[_.-](?:test|spec)s?|(?<=[a-z0-9])(?:Tests?|Spec|IT))\.\w{1,12}$"
)


def is_test(path: str) -> bool:
    """Whether a file is a test or belongs to tests, judged by its path."""
    return _TEST.search(path[-500:]) is not None
