import re
from pathlib import Path

import pytest

from worker.errors import ConfigError
from worker.settings import playbook

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


TOOLS = ("sandbox_exec", "gitlab_get_file", "fetch_to_sandbox")
LIMIT, TRIGGER = "max_iterations: 5", 'pipeline_failed, "command:tidy"'
EXPECTED_TRIGGER = "expected pipeline_failed, or command:NAME in lower case, digits and dashes"

BROKEN: list[tuple[str, list[str]]] = [
    ("no front matter", ["1: expected a front matter between two lines of ---"]),
    ("---\nname: x\n", ["1: expected a front matter between two lines of ---"]),
    ("---\n- a\n---\nx", ["2: expected fields such as name: between the lines of ---"]),
    (
        GOOD.replace("name: tidy", "name: [tidy"),
        ["2: the [ of this list is not closed, or text in it needs quotes (column 7)"],
    ),
    (GOOD.replace("name:", "\tname:"), ["2: a tab: indent with spaces (column 1)"]),
    (
        GOOD.replace("name: tidy", "name: tidy\nname: tidier"),
        ["3: name: there already, in line 2: leave one of them out"],
    ),
    (
        GOOD.replace("name: tidy", "name: Tidy Up"),
        ["2: name: expected a name of lower case, digits and dashes; found 'Tidy Up'"],
    ),
    (
        GOOD.replace("name: tidy\n", ""),
        [" name: missing: expected a name of lower case, digits and dashes"],
    ),
    (
        GOOD.replace(LIMIT, "max_iterations: none"),
        ["5: max_iterations: expected a whole number from 1 to 1000; found 'none'"],
    ),
    (
        GOOD.replace(LIMIT, "iterations: 5\nfoo: 1"),
        [
            "5: iterations: unknown key: did you mean max_iterations?",
            "6: foo: unknown key (CONTRIBUTING.md, *Adding a workflow*, lists the fields)",
        ],
    ),
    (
        GOOD.replace("pipeline_failed", "pipeline_red"),
        [
            f"4: triggers[0]: {EXPECTED_TRIGGER}; found 'pipeline_red': did you mean "
            "pipeline_failed?"
        ],
    ),
    (
        GOOD.replace(TRIGGER, "'command:', 'command:Two words', other"),
        [
            f"4: triggers[{number}]: {EXPECTED_TRIGGER}; found {found}"
            for number, found in enumerate(["'command:'", "'command:Two words'", "'other'"])
        ],
    ),
    (
        GOOD.replace("command:tidy", "command:forget"),
        [
            "4: triggers[1]: expected another name, since there is a command of this one already; "
            "found 'command:forget'"
        ],
    ),
    (
        GOOD.replace(f"[{TRIGGER}]", "pipeline_failed"),
        [
            "4: triggers: expected a list of texts; found 'pipeline_failed': write "
            "['pipeline_failed']"
        ],
    ),
    (
        GOOD.replace("# Do it\nwell\n", ""),
        ["7: expected the text for the model below the second line of ---"],
    ),
    (
        GOOD.replace(LIMIT, "text: x"),
        ["5: text: does not belong here: the text stands below the second line of ---"],
    ),
    (
        GOOD.replace(LIMIT, "context: {strategy: forget}"),
        ["5: context.strategy: expected none, prune, window, summary or recursive; found 'forget'"],
    ),
    (
        GOOD.replace(LIMIT, "context: {fold_at: 0.1}"),
        ["5: context.fold_at: expected fold_to (0.2) below fold_at (0.1)"],
    ),
    (
        GOOD.replace(LIMIT, "plan: fact\ngate: on\nmodel_tier: smrt\ncompact: 3"),
        [
            "5: plan: expected off, facts or model; found 'fact': did you mean facts?",
            "6: gate: expected off, rules or judge; found on",
            "7: model_tier: expected balanced, smart, coding or deep; found 'smrt': did you mean "
            "smart?",
            "8: compact: expected true or false; found 3",
        ],
    ),
    (
        GOOD.replace("[sandbox_exec, gitlab_*]", "[sandbox_exek, gitlb_*, konflux_logs]"),
        [
            "6: tools[0]: no tool is named 'sandbox_exek': did you mean sandbox_exec?",
            "6: tools[1]: no tool is named 'gitlb_*'",
        ],
    ),
    (
        GOOD.replace(LIMIT, "small_tools:\n  - sandbox_exec\n  - gitlab_get_fiel"),
        ["7: small_tools[1]: no tool is named 'gitlab_get_fiel': did you mean gitlab_get_file?"],
    ),
]
"""A broken workflow, and exactly what a person reads of it, without the file."""


@pytest.mark.parametrize(("text", "lines"), BROKEN)
def test_a_broken_workflow_is_told_in_these_lines(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        playbook.parse(text, "bad.md", TOOLS)
    assert str(refused.value).splitlines() == [f"bad.md:{line}" for line in lines]


def test_a_tool_that_is_not_known_to_be_missing_is_taken() -> None:
    assert playbook.parse(GOOD.replace("sandbox_exec", "sandbox_exek"), "x.md")
    assert playbook.parse(GOOD, "x.md", TOOLS)


def test_what_is_wrong_with_several_workflows_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(GOOD.replace("pipeline_failed", "x"), encoding="utf-8")
    (tmp_path / "b.md").write_bytes(b"---\nname: caf\xe9")
    (tmp_path / "c.md").write_text(GOOD.replace("name: tidy", "name: T"), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        playbook.load(str(tmp_path))
    told = [line.removeprefix(f"{tmp_path}/") for line in str(refused.value).splitlines()]
    assert [line.partition(" ")[0] for line in told] == ["a.md:4:", "b.md:", "c.md:2:"]
    assert told[1] == "b.md: cannot be read: it is not UTF-8, at byte 14"


def test_two_workflows_of_one_name_or_none_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no workflow files"):
        playbook.load(str(tmp_path))
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"b\.md: name: a\.md has the name 'tidy' too"):
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
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Adding a workflow")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert named == set(playbook.Workflow.model_fields) - {"text", "small_text"}
