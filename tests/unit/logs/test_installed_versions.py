"""What a log says was installed, in the words of the tools, and what differs between two runs."""

import pytest

from worker.logs.installed_versions import (
    MOST,
    Package,
    find_differences,
    find_runner,
    find_same,
    find_versions,
)

LINES = [
    ("Successfully installed attrs-25.3.0 click-8.1.8", "pip", "click", "8.1.8"),
    ("Requirement already satisfied: Click>=8 in /usr/lib (8.1.8)", "pip", "click", "8.1.8"),
    ("  Downloading ruamel.yaml-0.18.6-py3-none-any.whl (117 kB)", "pip", "ruamel-yaml", "0.18.6"),
    (" + typing-extensions==4.12.2", "pip", "typing-extensions", "4.12.2"),
    ("click==8.1.8", "pip", "click", "8.1.8"),
    ("docs: attrs==25.3.0,click==8.1.8,idna==3.10", "pip", "click", "8.1.8"),
    ("  - Installing click (8.1.8)", "pip", "click", "8.1.8"),
    ("├── typescript@5.7.3", "npm", "typescript", "5.7.3"),
    ("│ └─┬ @types/node@20.1.0", "npm", "@types/node", "20.1.0"),
    ("`-- vite@5.0.0", "npm", "vite", "5.0.0"),
    ("+ typescript 5.7.3", "npm", "typescript", "5.7.3"),
    ("   Compiling serde v1.0.219", "cargo", "serde", "v1.0.219"),
    ("    Updating tokio v1.40.0 -> v1.41.0", "cargo", "tokio", "v1.41.0"),
    ("go: downloading golang.org/x/text v0.14.0", "go", "golang.org/x/text", "v0.14.0"),
    ("[INFO] Downloaded from central: https://repo.example/maven2/com/x/json-core/2.15.0/"
     "json-core-2.15.0.jar (1 MB)", "jar", "json-core", "2.15.0"),
    ("Setting up libssl3:amd64 (3.0.15-1~deb12u1) ...", "apt", "libssl3", "3.0.15-1~deb12u1"),
    ("Get:12 http://mirror.example bookworm/main amd64 curl amd64 7.88.1-10 [315 kB]", "apt",
     "curl", "7.88.1-10"),
    ("Get:1 http://deb.example/debian trixie InRelease [140 kB]", "release", "debian", "trixie"),
    ("Hit:2 http://mirror.example/ubuntu/ noble InRelease", "release", "ubuntu", "noble"),
    ("(3/9) Installing musl-dev (1.2.4-r2)", "apk", "musl-dev", "1.2.4-r2"),
    ("Using rake 13.0.6", "gem", "rake", "13.0.6"),
    ("  - Installing symfony/console (v6.1.2)", "composer", "symfony/console", "v6.1.2"),
    ("Using docker image sha256:0a1b for python:3.12 with digest python@sha256:"
     + "4e5f" * 16 + " ...", "image", "python:3.12", "4e5f4e5f4e5f"),
    ("Using docker image sha256:0a1b for registry.example:5000/ci/golangci-lint:v2.5.0 with digest "
     "registry.example:5000/ci/golangci-lint@sha256:" + "4e5f" * 16 + " ...", "image",
     "registry.example:5000/ci/golangci-lint", "v2.5.0"),
    ("golangci-lint has version 2.5.0 built with go1.25", "tool", "golangci-lint", "2.5.0"),
    ("platform linux -- Python 3.12.1, pytest-8.3.4, pluggy-1.5.0", "tool", "pytest", "8.3.4"),
    ("go version go1.22.1 linux/amd64", "tool", "go", "1.22.1"),
    ("rustc 1.77.0 (aedd173a2 2024-03-17)", "tool", "rustc", "1.77.0"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind", "name", "version"), LINES, ids=lambda each: each[:24])
def test_the_words_of_the_tools_are_understood(
    line: str, kind: str, name: str, version: str
) -> None:
    found = find_versions([f"$ install\n{line}\nDone\n".encode()])
    told = {(package.kind, package.name): versions for package, versions in found.items()}
    assert told[kind, name] == {version}


@pytest.mark.parametrize(
    "line",
    ["FAILED tests/test_a.py::test_b - assert 1 == 2", "E   click 8 is not 9", "Using cache",
     "see you @ 5pm", "pip is not here", "node a failed", "2024-01-01 12:00:00 INFO started"],
)  # fmt: skip
def test_other_lines_name_no_version(line: str) -> None:
    assert find_versions([line.encode() + b"\n"]) == {}


def test_what_moved_is_told_and_what_stayed_or_came_is_not() -> None:
    before = find_versions([b"Successfully installed click-8.1.8 attrs-25.3.0 old-1.0\n"])
    found = find_versions([b"Successfully installed click-8.2.0 attrs-25.3.0 new-1.0\n"])
    assert list(map(str, find_differences(found, before))) == ["click 8.1.8 → 8.2.0"]


def test_the_release_of_a_distribution_comes_first() -> None:
    logs = (
        f"Get:1 http://deb.example/debian {suite} InRelease [9 kB]\n"
        f"Setting up curl ({version}) ...\n"
        for suite, version in (("trixie", "8.14"), ("bookworm", "7.88"))
    )
    found, before = (find_versions([each.encode()]) for each in logs)
    assert [*map(str, find_differences(found, before))] == [
        "debian bookworm → trixie",
        "curl 7.88 → 8.14",
    ]


def test_a_package_of_several_versions_moved_only_if_one_came_and_one_went() -> None:
    before = find_versions([b"   Compiling syn v1.0.1\n   Compiling syn v2.0.1\n"])
    same = find_versions([b"   Compiling syn v2.0.1\n"])
    moved = find_versions([b"   Compiling syn v1.0.1\n   Compiling syn v2.0.2\n"])
    assert find_differences(same, before) == ()
    assert list(map(str, find_differences(moved, before))) == ["syn v2.0.1 → v2.0.2"]


def test_a_log_of_nothing_but_packages_is_kept_within_bounds() -> None:
    lines = "".join(f"   Compiling crate-{number} v1.0.0\n" for number in range(MOST + 500))
    assert len(find_versions([lines.encode()])) == MOST


def test_what_stayed_is_told_apart_from_what_moved_or_is_not_in_both() -> None:
    before = find_versions([b"Successfully installed click-8.1.8 attrs-25.3.0 old-1.0\n"])
    found = find_versions([b"Successfully installed click-8.2.0 attrs-25.3.0 new-1.0\n"])
    assert find_same(found, before) == ((Package("pip", "attrs"), "25.3.0"),)


def test_no_image_is_the_same_if_one_of_them_moved() -> None:
    line = "Using docker image sha256:%s for %s with digest x@sha256:%s ...\n"
    one, other = (
        find_versions(
            [
                (line % ("c" * 64, "alpine", "c" * 64)).encode()
                + (line % (digest * 64, "debian", digest * 64)).encode()
            ]
        )
        for digest in "ab"
    )
    assert find_same(one, other) == ()
    assert [package.name for package, _ in find_same(one, one)] == ["alpine", "debian"]


@pytest.mark.parametrize(
    ("lines", "runner"),
    [
        (["Running with gitlab-runner 18.5.0", "  on blue-3 zxwgkjAP"], "blue-3 zxwgkjAP"),
        (["on the way", "$ echo '  on x'", "on x"], ""),
        (["x"] * 30 + ["  on blue-3 zxwgkjAP"], ""),
    ],
)
def test_a_log_says_at_its_head_which_runner_took_the_job(lines: list[str], runner: str) -> None:
    assert find_runner(lines) == runner
