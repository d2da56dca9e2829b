"""llama.cpp's own server, where there is one: its answers and refusals are real, its model is not.

`SANDPIPER_TEST_LLAMA` names the program `llama-server`, unless it is in PATH. CONTRIBUTING.md says
where it can be had.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.flow.product import product
from tests.flow.test_folds import FINDING, lead_to
from tests.llama_models import write_model
from tests.simulators.openai import ChatSim
from tests.wire.conversations import asks, found
from worker.clock import SystemClock
from worker.conversation import context_json
from worker.conversation.context import Outcome, Status
from worker.conversation.messages import Assistant, Message, User, WireForm
from worker.conversation.model import Model, StopReason
from worker.errors import NO_TOOLS, ContextOverflow, ModelError
from worker.lab.script import Scripted
from worker.models import table
from worker.settings import Settings
from worker.wiring.providers import open_model

WINDOW = 120_000
CALL = '{"name": "look", "arguments": {"at": "a"}}'
HERMES = f"<tool_call>\n{CALL}\n</tool_call>"
EXEC = json.dumps({"name": "sandbox_exec", "arguments": {"command": "ls /tmp/data"}})
WITHOUT = "no llama-server: put one into PATH, or name one in SANDPIPER_TEST_LLAMA"

Start = Callable[..., str]


@contextmanager
def run_server(model: Path, *options: str) -> Iterator[str]:
    """Run the server until the end of the block; yields its base URL. Skips the test where there is
    none, or none for this processor."""
    program = os.environ.get("SANDPIPER_TEST_LLAMA") or shutil.which("llama-server")
    if not program:
        pytest.skip(WITHOUT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ("--host", "127.0.0.1", "--port", str(port), "--model", str(model))
    small = (
        "--temp",
        "0",
        "--threads",
        "1",
        "--parallel",
        "1",
        "--no-warmup",
        "--device",
        "none",
    )
    with (model.parent / "llama.log").open("wb") as log:
        server = subprocess.Popen([program, *place, *small, *options], stdout=log, stderr=log)
    try:
        _wait_for(server, f"http://127.0.0.1:{port}/health", model.parent / "llama.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if server.poll() == -signal.SIGILL:
            pytest.skip("llama-server was built for another processor")
        assert server.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            if httpx.get(url, timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"no answer in a minute: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a server, or returns the one that runs with the same model and options."""
    running: dict[tuple[str, ...], str] = {}
    with ExitStack() as opened:

        def start_server(call: str, end: str, *options: str) -> str:
            key = (call, end, *options)
            if key not in running:
                model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
                write_model(model, call, end, window=WINDOW)
                running[key] = opened.enter_context(run_server(model, *options))
            return running[key]

        yield start_server


@contextmanager
def ask_at(url: str, provider: str = "openai-compatible", **entry: object) -> Iterator[Model]:
    """The model as runs use it, with what the catalogue says of it."""
    name = f"{provider}/tiny"
    settings = Settings.model_validate({"models": {"catalogue": {name: entry}}})
    built = table.build_model(name, url, "", clock=SystemClock(), max_attempts=1)
    with open_model(built, settings) as model:
        yield model


@pytest.mark.parametrize("provider", ["openai-compatible", "openai-responses"])
def test_a_native_call_is_made_and_its_result_read(start: Start, provider: str) -> None:
    messages: list[Message] = [User("event")]
    with ask_at(start(HERMES, "It is there."), provider) as model:
        first = model.reply(asks(*messages, session="0123456789"))
        (call,) = first.calls
        messages += [
            Assistant(first.text, first.calls, WireForm(model.name, first.wire)),
            found(call.id, "it is there"),
        ]
        last = model.reply(asks(*messages, session="0123456789"))
    assert (call.name, json.loads(call.arguments)) == ("look", {"at": "a"})
    assert (first.stop, first.text) == (StopReason.TOOL_CALLS, "")
    assert (last.text, last.calls, last.stop) == ("It is there.", (), StopReason.END)
    # What was sent before is read from the server's cache.
    assert last.usage.cache_read > first.usage.input - 50


def test_a_server_that_obeys_required_ends_the_turn_by_the_answer(start: Start) -> None:
    answer = json.dumps({"name": "answer", "arguments": {"text": "Done."}})
    with ask_at(start(f"<tool_call>\n{answer}\n</tool_call>", "?"), forced_decision=True) as model:
        reply = model.reply(asks(User("event")))
    assert (reply.text, reply.calls) == ("Done.", ())


def test_a_server_without_templates_goes_on_by_text(start: Start) -> None:
    url = start(f"I look.\n\n```tool_call\n{CALL}\n```", "?", "--no-jinja")
    built = table.build_model("openai-compatible/tiny", url, "", clock=SystemClock())
    with closing(built) as bare, pytest.raises(ModelError, match="jinja") as refused:
        bare.reply(asks(User("event")))
    with ask_at(url) as model:
        reply = model.reply(asks(User("event"), session="0123456789"))
    assert refused.value.kind == NO_TOOLS
    assert [call.name for call in reply.calls] == ["look"]
    assert reply.text == "I look."


def test_a_call_that_the_server_leaves_in_the_text_is_made(start: Start) -> None:
    with ask_at(start(f"[TOOL_CALLS][{CALL}]", "?")) as model:
        reply = model.reply(asks(User("event"), session="0123456789"))
    assert [call.name for call in reply.calls] == ["look"]
    assert (reply.text, reply.stop) == ("", StopReason.TOOL_CALLS)


def test_a_conversation_longer_than_the_window_is_told_with_the_window(start: Start) -> None:
    url = start(HERMES, "It is there.", "--ctx-size", "2048")
    with ask_at(url) as model, pytest.raises(ContextOverflow) as refused:
        model.reply(asks(User("x" * 3000)))
    assert refused.value.limit == 2048


def test_an_answer_that_is_cut_runs_nothing(start: Start) -> None:
    with ask_at(start(HERMES, "It is there.")) as model:
        reply = model.reply(asks(User("event"), max_output=1))
    assert (reply.stop, reply.calls) == (StopReason.TRUNCATED, ())


def test_the_list_has_the_model_and_the_window_that_the_server_was_started_with(
    start: Start,
) -> None:
    url = start(HERMES, "It is there.", "--ctx-size", "2048")
    clock = SystemClock()
    page = table.list_models(
        "openai-compatible", url, "", clock=clock, deadline=clock.monotonic() + 60
    )
    (served,) = page.models
    assert served.id.endswith("/tiny.gguf")
    assert served.window == 2048


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_the_whole_loop_ends_in_a_note(start: Start, tmp_path: Path) -> None:
    url = start(f"<tool_call>\n{EXEC}\n</tool_call>", FINDING)
    with product(tmp_path, Scripted(), "memory://", ChatSim) as made:
        lead_to(made, "chat", WINDOW, "")
        made.env["OPENAI_BASE_URL"] = url
        done = made.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 0, done.stderr
        ended = context_json.load_context(made.objects("context.json")[-1].read_bytes())
        (note,) = made.notes()
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    calls = [call for each in ended.messages if isinstance(each, Assistant) for call in each.calls]
    assert [call.name for call in calls] == ["sandbox_exec"]
    assert "assert [] == ['23:50']" in note.body
