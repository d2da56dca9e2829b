"""The lines of a repository's files that name a package or an image, and no one version of it."""

import pytest

from worker.verdict.unpinned import MOST_NAMES, find_unpinned, list_requirement_files

OPEN = [
    ("requirements/testing.txt", "ruff", "ruff"),
    ("requirements.txt", "ruff", "ruff>=0.4  # linter"),
    ("requirements.txt", "ruff", "ruff==0.4.*"),
    ("requirements.in", "zope-interface", "zope.interface[test] ; python_version > '3'"),
    ("pyproject.toml", "ruff", '    "ruff>=0.4",'),
    ("pyproject.toml", "ruff", 'dev = ["pytest==8.1.0", "ruff"]'),
    ("pyproject.toml", "ruff", 'ruff = "^0.4"'),
    ("tox.ini", "ruff", "deps = ruff"),
    ("tox.ini", "ruff", "    ruff"),
    ("package.json", "eslint", '    "eslint": "^9.1.0",'),
    ("web/package.json", "@types/node", '    "@types/node": "*"'),
    ("Gemfile", "rubocop", "gem 'rubocop', '~> 1.60', require: false"),
    ("Gemfile", "rubocop", 'gem "rubocop"'),
    (".gitlab-ci.yml", "ruff", "    - pip install -q ruff mypy==1.9"),
    (".gitlab-ci.yml", "eslint", "    - npx eslint ."),
    (".gitlab-ci.yml", "curl", "    - apt-get update && apt-get install -y curl"),
    (".gitlab-ci.yml", "node:latest", "  image: node:latest"),
    (".gitlab-ci.yml", "node", "  image: node"),
    (".gitlab-ci.yml", "gcc:12", '  image: "gcc:12"'),
    ("Dockerfile", "python", "FROM python:3 AS build"),
]
CLOSED = [
    ("requirements.txt", "ruff", "ruff==0.4.2"),
    ("requirements.txt", "ruff", "ruff @ https://host.example/ruff.whl"),
    ("requirements.txt", "ruff", "# ruff"),
    ("requirements.txt", "ruff", "ruff-lsp"),
    ("requirements.txt", "ruff", "pytest-ruff"),
    ("requirements.txt", "ruff", "-e tools/ruff"),
    ("pyproject.toml", "ruff", "[tool.ruff]"),
    ("pyproject.toml", "ruff", 'ruff = "0.4.2"'),
    ("pyproject.toml", "ruff", '    "ruff==0.4.2",'),
    ("tox.ini", "ruff", "commands = ruff check ."),
    ("package.json", "eslint", '    "eslint": "9.1.0",'),
    ("package.json", "eslint", '    "lint": "eslint ."'),
    ("Gemfile", "rubocop", "gem 'rubocop', '1.60.2'"),
    ("Gemfile", "rubocop", "gem 'rubocop-rails', '~> 2'"),
    (".gitlab-ci.yml", "ruff", "    - pip install ruff==0.4.2"),
    (".gitlab-ci.yml", "ruff", "    - ruff check ."),
    (".gitlab-ci.yml", "ruff", "    - poetry run ruff check ."),
    (".gitlab-ci.yml", "eslint", "    - npx eslint@9.1.0 ."),
    (".gitlab-ci.yml", "gcc:12", "  image: gcc:12@sha256:0a1b2c"),
    (".gitlab-ci.yml", "python", "  image: python:3.12.4-slim"),
    (".gitlab-ci.yml", "python", "  script: python -m app"),
]


@pytest.mark.parametrize(("path", "name", "line"), OPEN)
def test_a_line_that_leaves_the_version_open_is_found(path: str, name: str, line: str) -> None:
    (found,) = find_unpinned(path, f"first\n{line}\n", [name])
    assert (found.name, found.path, found.line) == (name, path, 2)
    assert found.text in line


@pytest.mark.parametrize(("path", "name", "line"), CLOSED)
def test_a_line_that_pins_or_only_mentions_a_package_is_not(
    path: str, name: str, line: str
) -> None:
    assert [*find_unpinned(path, f"first\n{line}\n", [name])] == []


def test_the_files_are_those_that_the_log_names_then_those_of_its_commands() -> None:
    log = (
        "$ pip install -q -r requirements/testing.txt\n"
        "Collecting ruff (from -r ./requirements/testing.txt (line 2))\n"
        "$ cd web && npm install\n-r ../../other/requirements.txt -r /etc/x.txt\n"
    )
    assert list_requirement_files(log) == [
        "requirements/testing.txt",
        ".gitlab-ci.yml",
        "requirements.txt",
        "pyproject.toml",
        "package.json",
    ]
    assert list_requirement_files("") == [".gitlab-ci.yml"]


def test_hostile_files_and_names_are_read_in_no_time() -> None:
    names = [f"{'a-' * 40}{number}" for number in range(5_000)]
    text = f"{'a.' * 300}\n" * 2_000
    for path in ("requirements.txt", "pyproject.toml", "package.json", ".gitlab-ci.yml"):
        assert len([*find_unpinned(path, text, names)]) <= MOST_NAMES
