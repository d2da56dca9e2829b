"""An error that nobody has foreseen ends a run and loses nothing; what is foreseen can be set."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.flow.test_gate import say_in_order
from tests.simulators.anthropic import AnthropicSim
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.messages import ToolResult
from worker.lab.script import Answer, Asked, Call, Empty, Say, Script
from worker.settings import playbook

pytestmark = pytest.mark.usefixtures("bubblewrap")

PLUGIN = '''
from worker.gitlab.read.base import NoArguments, SourceDef


class Storm(Exception):
    """No ArithmeticError, no LookupError, nothing that a tool is expected to raise."""


def fetch(args, reader):
    raise Storm("key=hunter2")


FORECAST = SourceDef(
    name="weather_get_forecast", description="The weather.", args=NoArguments, fetch=fetch, note="-"
)
'''
SO_FAR = "## Verdict\nunknown\n\n## Cause\n`merge` no longer joins windows that only touch.\n"


def install_plugin(made: Product) -> None:
    """Install a source whose failure nobody has foreseen, and a workflow that has it."""
    site = made.folder / "site"
    dist = site / "weather-1.0.dist-info"
    dist.mkdir(parents=True)
    (site / "weather.py").write_text(PLUGIN)
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text("[sandpiper.sources]\nweather = weather:FORECAST\n")
    folder = made.folder / "workflows"
    folder.mkdir()
    for path in playbook.find_bundled_folder().glob("*.md"):
        text = path.read_text().replace("gitlab_*,", "gitlab_*, weather_*,", 1)
        (folder / path.name).write_text(text)
    made.write_settings(f"workflows: {folder}\n")
    # Entry points are those of the interpreter's start, so each command is a new one.
    made.env["PYTHONPATH"], made.forks = str(site), False


def read_newest(made: Product) -> Context:
    return context_json.load_context(made.objects("context.json")[-1].read_bytes())


def test_an_error_that_nobody_has_foreseen_keeps_history_sandbox_and_what_was_said(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def answer_on(asked: Asked) -> Say:
        seen.append(asked.results[-1].content)
        return Say("It still says forty-two.")

    steps: Iterator[Answer | Script] = iter(
        (
            Call([("sandbox_exec", {"command": "echo forty-two > /tmp/data/kept"})], SO_FAR),
            Call([("weather_get_forecast", {})]),
            Call([("sandbox_exec", {"command": "cat /tmp/data/kept"})]),
            answer_on,
        )
    )

    def model(asked: Asked) -> Answer:
        step = next(steps)
        return step(asked) if callable(step) else step

    with product(tmp_path, model, "memory://", AnthropicSim) as made:
        install_plugin(made)
        done = made.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 3, done.stderr
        assert "Storm" in done.stderr
        ended = read_newest(made)
        (note,) = made.notes()
        with tarfile.open(made.objects("sandbox.tar.gz")[-1]) as archive:
            names = archive.getnames()

        replied = made.run("reply", ended.session_id, "What does the file say?")
        assert replied.returncode == 0, replied.stderr
        again = read_newest(made)

    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.text) == (Status.PARTIAL, SO_FAR)
    assert ended.outcome.reason == "an internal error (Storm)"
    results = [each for each in ended.messages if isinstance(each, ToolResult)]
    assert [each.name for each in results] == ["sandbox_exec", "weather_get_forecast"]
    assert "the turn ended first" in results[-1].content
    assert any(name.endswith("data/kept") for name in names)
    assert "no longer joins windows" in note.body
    assert "hunter2" not in note.body + context_json.dump_context(ended).decode()
    assert again.messages[: len(ended.messages)] == ended.messages
    assert "forty-two" in seen[0]


def test_what_a_run_puts_up_with_is_as_the_operator_says(tmp_path: Path) -> None:
    again = Call([("sandbox_exec", {"command": "true"})])
    rows: list[tuple[str, Answer, int, str]] = [
        ("limits: {max_identical_calls: 2, identical_calls_after_hint: 1}", again, 3, "same calls"),
        ("loop: {empty_retries: 1}", Empty(), 2, "after a reminder"),
    ]
    for number, (settings, answer, requests, reason) in enumerate(rows):
        folder = tmp_path / str(number)
        folder.mkdir()
        script = say_in_order(*[answer] * 9)
        with product(folder, script, "memory://", AnthropicSim) as made:
            made.write_settings(f"{settings}\n")
            made.run("analyze", "northsound/ferrytimes!1")
            ended = read_newest(made)
            assert len(made.model.requests) == requests
        assert ended.outcome
        assert reason in ended.outcome.reason


def test_the_operator_says_how_long_an_answer_may_be_and_how_often_tools_are_looked_for(
    tmp_path: Path,
) -> None:
    with product(tmp_path, say_in_order(Say("## Cause\nNone.")), "memory://", AnthropicSim) as made:
        loop = "{gate: 'off', tools: compact, find_tool_uses: 1}"
        made.write_settings(f"limits: {{answer_tokens: 5000}}\nloop: {loop}\n")
        made.run("analyze", "northsound/ferrytimes!1")
        (request,) = made.model.requests
    assert request["max_tokens"] == 5000
    (find,) = [each for each in request["tools"] if each["name"] == "find_tool"]
    assert "At most once." in find["description"]
