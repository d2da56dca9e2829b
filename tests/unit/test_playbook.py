import re
from pathlib import Path

import pytest

from worker import playbook
from worker.errors import ConfigError

GOOD = """---
name: tidy
description: Tidies.
triggers: [pipeline_failed, "command:tidy"]
max_iterations: 5
tools: [sandbox_exec, gitlab_*]
---
# Do it
well
"""


def test_a_workflow_is_read_and_its_text_kept_verbatim() -> None:
    workflow = playbook.parse(GOOD, "x.md")
    assert (workflow.name, workflow.max_iterations) == ("tidy", 5)
    assert workflow.text == "# Do it\nwell\n"
    assert workflow.allows("gitlab_get_file")
    assert workflow.allows("sandbox_exec")
    assert not workflow.allows("fetch_to_sandbox")


def test_off_needs_no_quotes() -> None:
    text = GOOD.replace("max_iterations: 5", "plan: off\ngate: off")
    workflow = playbook.parse(text, "x.md")
    assert (workflow.plan, workflow.gate) == ("off", "off")


def test_the_bundled_workflow_answers_failed_pipelines() -> None:
    workflow = playbook.load("").for_trigger("pipeline_failed")
    assert workflow.name == "analyze-failures"
    assert "## Evidence" in workflow.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no front matter", "front matter"),
        ("---\nname: x\n", "front matter"),
        (GOOD.replace("name: tidy", "name: [tidy"), "not YAML"),
        (GOOD.replace("name: tidy", "name: Tidy Up"), "name"),
        (GOOD.replace("max_iterations: 5", "max_iterations: none"), "max_iterations"),
        (GOOD.replace("max_iterations: 5", "iterations: 5"), "iterations"),
        (GOOD.replace("pipeline_failed", "pipeline_red"), "unknown trigger 'pipeline_red'"),
        (GOOD.replace("command:tidy", "command:"), "unknown trigger 'command:'"),
        (GOOD.replace("command:tidy", "command:Two words"), "unknown trigger 'command:Two words'"),
        (GOOD.replace("command:tidy", "command:forget"), "a command of this name already"),
        (GOOD.replace("# Do it\nwell\n", ""), "text"),
    ],
)
def test_a_wrong_workflow_file_names_the_file_and_the_field(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        playbook.parse(text, "bad.md")
    assert "bad.md" in str(raised.value)


def test_two_workflows_of_one_name_or_none_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no workflow files"):
        playbook.load(str(tmp_path))
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(ConfigError, match="two workflow files are named 'tidy'"):
        playbook.load(str(tmp_path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    book = playbook.Playbook([playbook.parse(GOOD, "x.md")])
    with pytest.raises(ConfigError, match="'other'; known: tidy"):
        book.get("other")
    with pytest.raises(ConfigError, match="command:x"):
        book.for_trigger("command:x")


def test_a_workflow_may_fold_in_its_own_way() -> None:
    own = GOOD.replace("max_iterations: 5", "context: {strategy: window, keep_last: 4}")
    context = playbook.parse(own, "x.md").context
    assert context.model_dump(exclude_unset=True) == {"strategy": "window", "keep_last": 4}


def test_a_wrong_strategy_is_refused_with_its_name() -> None:
    own = GOOD.replace("max_iterations: 5", "context: {strategy: forget}")
    with pytest.raises(ConfigError, match=r"x.md: context.strategy: .*summary"):
        playbook.parse(own, "x.md")


SMALL = GOOD.replace("---\n# Do it", "small_tools: [sandbox_exec]\n---\n# Do it") + (
    "\n<!-- small -->\n# Do it soon\n"
)


def test_a_small_window_has_the_text_and_the_tools_of_its_own() -> None:
    whole = playbook.parse(SMALL, "x.md")
    small = whole.fit(playbook.SMALL_WINDOW - 1)

    assert whole.fit(playbook.SMALL_WINDOW) is whole
    assert (whole.text, small.text) == ("# Do it\nwell\n", "# Do it soon\n")
    assert (whole.compact, small.compact) == (False, True)
    assert whole.announces("gitlab_get_file")
    assert not small.announces("gitlab_get_file")
    assert small.allows("gitlab_get_file")
    assert small.announces("sandbox_exec")
    assert not whole.announces("fetch_to_sandbox")


def test_a_workflow_without_a_small_form_keeps_its_text_and_tools() -> None:
    small = playbook.parse(GOOD, "x.md").fit(1000)
    assert small.text == "# Do it\nwell\n"
    assert small.announces("gitlab_get_file")
    assert small.compact


def test_the_bundled_workflow_has_a_small_form_with_the_same_sections() -> None:
    whole = playbook.load("").for_trigger("pipeline_failed")
    small = whole.fit(8_000)
    sections = [line for line in small.text.splitlines() if line.startswith("## ")]
    assert len(small.text) < 2_000
    assert set(sections) <= set(whole.text.splitlines())
    assert {"## Verdict", "## Cause", "## Evidence"} <= set(sections)
    assert "<!-- small -->" not in whole.text


def test_every_field_of_the_front_matter_is_documented() -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Adding a workflow")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert named == set(playbook.Workflow.model_fields) - {"text", "small_text"}
