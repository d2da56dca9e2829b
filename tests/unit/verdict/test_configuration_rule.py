"""A pipeline that GitLab could not make: which line is wrong, and whether the change wrote it."""

import pytest

from tests.unit.verdict.rule_logs import CI_TOUCHED, CLEAN, IMAGE_TOUCHED, YAML_TOUCHED
from worker.verdict.rules.configuration import explain_configuration_error
from worker.verdict.rules.rule import Scene

CONFIGURATION = """\
stages: [test]

lint:
  script: ruff check

test:
  stage: test
  scrpt: pytest
  image: python
"""


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        ("(<unknown>): did not find expected key at line 3 column 1", 3),
        ("jobs:test config contains unknown keys: scrpt", 8),
        ("jobs:test:image config should be a string", 9),
        ("jobs:lint config should implement the script:, run:, or trigger: keyword", 3),
        ("jobs:deploy config contains unknown keys: x", 0),
        ("Local file `ci/a.yml` does not exist!", 0),
        ("at line 400 column 2", 0),
    ],
)
def test_the_line_of_the_configuration_is_found(errors: str, line: int) -> None:
    ruled = explain_configuration_error(errors, CI_TOUCHED, ".gitlab-ci.yml", CONFIGURATION)
    assert ruled is not None
    assert (f"(`.gitlab-ci.yml`, line {line})" in ruled.cause) is (line > 0)


KEYWORDS = """\
build:
  stage: build
  script: make biuld

"unit tests":
  stage: test
  needs:
    - job: biuld
      artifacts: true
  rules:
    - if: $CI_PIPELINE_SOURCE = "push"

lint:
  stage: tset
  extends: .bsae
  parallel:
    matrix:
      - PY: ["3.11", "3.12"]
  needs: ["unit tests", "pack: [x]"]

include:
  - local: ci/biuld.yml
"""


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        ("unit tests job: undefined need: biuld", 8),
        ("'unit tests' job needs 'biuld' job, but 'biuld' does not exist in the pipeline.", 8),
        ("jobs:unit tests:rules:rule if invalid expression syntax", 10),
        ("jobs:unit tests rules should be an array of hashes", 10),
        ("lint: unknown keys in `extends` (.bsae)", 15),
        ("lint job: chosen stage tset does not exist; available stages are .pre, build", 14),
        ("'lint: [3.11]' job needs 'pack: [x]' job, but 'pack: [x]' does not exist", 19),
        ("lint: [3.12] job: undefined need: pack: [x]", 19),
        ("lint 2/5 job: undefined need: unit tests", 19),
        ("jobs:lint:parallel:matrix config should be an array of hashes", 17),
        ("Local file `ci/biuld.yml` does not exist!", 22),
        ("Included file `ci/x.yml`: did not find expected key at line 3 column 1", 0),
        ("build job: need lint is not defined in current or prior stages", 1),
    ],
)
def test_the_line_of_a_keyword_is_found_in_the_jobs_block(errors: str, line: int) -> None:
    match = explain_configuration_error(errors, Scene(), ".gitlab-ci.yml", KEYWORDS)
    assert match
    said = match.to_do.startswith(f"Correct line {line} of `.gitlab-ci.yml`;")
    assert said if line else match.to_do.startswith("See whether")


@pytest.mark.parametrize(
    ("errors", "paths", "added", "ours"),
    [
        ("lint job: undefined need: a", (".gitlab-ci.yml",), "  needs: [a]", True),
        ("lint job: undefined need: a", (".gitlab-ci.yml",), "  timeout: 1h", False),
        ("lint job: undefined need: a", ("src/a.py",), "  needs: [a]", False),
        ("Local file `ci/a.yml` does not exist!", (".gitlab-ci.yml",), "- local: ci/a.yml", True),
        ("Local file `ci/a.yml` does not exist!", (".gitlab-ci.yml",), "- local: ci/b.yml", False),
        ("Local file `ci/a.yml` does not exist!", ("ci/a.yml",), "", True),
        ("jobs:docs config contains unknown keys: x", (".gitlab-ci.yml",), "docs: {x: 1}", False),
        ("Project `a/b` not found or access denied!", (".gitlab-ci.yml",), "a/b", False),
        ("Remote file `https://a/b.yml` could not be fetched", (".gitlab-ci.yml",), "a", False),
        ("(<unknown>): did not find key at line 2 column 1", (".gitlab-ci.yml",), "x", True),
    ],
)
def test_a_broken_configuration_is_the_changes_by_the_lines_that_it_adds(
    errors: str, paths: tuple[str, ...], added: str, ours: bool
) -> None:
    scene = Scene("group/app", "", paths, added)
    ruled = explain_configuration_error(errors, scene, ".gitlab-ci.yml", "lint:\n  needs: [a]\n")
    assert ruled is not None
    assert ruled.certain is ours


def test_a_broken_configuration_is_the_changes_if_it_touches_it() -> None:
    errors = "jobs:build config contains unknown keys: scirpt"
    ours = explain_configuration_error(errors, CI_TOUCHED)
    assert ours is not None
    assert (ours.certain, ours.verdict) == (True, "caused by this change")
    assert errors in ours.cause
    for scene in (CLEAN, YAML_TOUCHED, IMAGE_TOUCHED):
        others = explain_configuration_error(errors, scene)
        assert others is not None
        assert not others.certain
    assert explain_configuration_error("", CI_TOUCHED) is None
