"""What kind of file a path is: what a change to it can break. Pure."""

import re

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
    r"requirements[^/]{0,80}\.(?:txt|in)$|(?:Docker|Container)file\.[^/]{1,80}$|\.[Dd]ockerfile$"
)


def is_ci(path: str) -> bool:
    """Whether a file is part of the CI configuration, by where it lies."""
    return _CI.search(path[:500]) is not None


def is_dependency(path: str) -> bool:
    """Whether a file says what is installed: a manifest, a lock file, an image."""
    name = path.rpartition("/")[2].lower()
    return name in _MANIFESTS or _REQUIREMENTS.search(path[-200:]) is not None


def is_docs(path: str) -> bool:
    """Whether a file is prose or a picture."""
    return path.lower().endswith(_DOCS) and not is_dependency(path)
