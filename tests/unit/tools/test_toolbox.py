import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.base import ExecResult, Output
from tests.contexts import call
from tests.fakes import EMPTY, FixedSource, MemorySandbox
from worker.conversation.messages import ToolResult, ToolSpec
from worker.errors import SandboxLost, SourceError
from worker.gitlab.read.redactions import Redactions
from worker.safety.redacted_values import Redacted
from worker.tools.base import ToolContext
from worker.tools.source import Document, DocumentKind
from worker.tools.toolbox import WorkflowToolbox, list_specs

SPEC = ToolSpec("gitlab_get_thing", "A thing.", {"type": "object", "properties": {}})
CLEAN = Redactions(bytes)
SMALL = Document(CLEAN(b'{"title": "x"}'))
SOURCES = {SPEC.name: FixedSource(SPEC, SMALL)}
LARGE = Document(CLEAN(b"line\n" * 2000), DocumentKind.TEXT, gaps="page 3 could not be read")


class Room:
    """A toolbox over a sandbox in memory and one source."""

    def __init__(
        self,
        answer: Document | Exception = SMALL,
        pattern: str = "",
        shown: int = 4096,
        whole: int = 1 << 20,
    ) -> None:
        self.sandbox = MemorySandbox()
        self.source = FixedSource(SPEC, answer)
        bench = ToolContext(
            sandbox=self.sandbox,
            sources={SPEC.name: self.source},
            exec_timeout=120.0,
            redact=lambda text: text.replace("hunter22", "[redacted]"),
            preview_bytes=shown,
            whole_bytes=whole,
        )
        self.toolbox = WorkflowToolbox(bench, lambda name: pattern in name)

    def run(self, name: str, arguments: Any, number: int = 0) -> tuple[dict[str, Any], ToolResult]:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        (ran,) = self.toolbox.run([call("c", name, text)], number)
        return json.loads(ran.result.content), ran.result


def test_specs_are_tools_then_sources_and_only_those_the_workflow_allows() -> None:
    names = [spec.name for spec in list_specs(SOURCES, lambda name: True)]
    assert names == ["sandbox_exec", "fetch_to_sandbox", "fetch_batch_to_sandbox", SPEC.name]
    assert [spec.name for spec in list_specs(SOURCES, lambda name: "exec" in name)] == names[:1]


def test_the_model_is_told_in_figures_how_much_of_an_output_it_sees() -> None:
    (spec,) = list_specs({}, lambda name: name == "sandbox_exec")
    assert "At most 5,120 bytes of stdout are shown, of more the beginning and the end (4,096" in (
        spec.description
    )


def test_schemas_are_plain_json_schema_without_references_titles_or_bounds() -> None:
    for spec in list_specs(SOURCES, lambda name: True):
        assert spec.parameters["type"] == "object"
        text = json.dumps(spec.parameters)
        assert "$ref" not in text
        assert '"title"' not in text
        assert not re.search(r'"(?:m(?:in|ax)\w+|exclusive\w+|pattern|anyOf)"', text)


def test_a_compact_schema_has_the_names_the_types_and_what_is_needed() -> None:
    short = {spec.name: spec for spec in list_specs({}, lambda name: True, compact=True)}
    whole = {spec.name: spec for spec in list_specs({}, lambda name: True)}

    command = short["sandbox_exec"].parameters
    assert command["properties"]["timeout_seconds"] == {"type": "number"}
    assert command["required"] == ["command"]
    batch = short["fetch_batch_to_sandbox"].parameters["properties"]["requests"]
    assert batch["items"]["required"] == ["source", "path"]
    assert len(repr(short)) < 0.6 * len(repr(whole))


def test_what_is_shown_whole_ends_where_the_window_is_small() -> None:
    request = {"source": SPEC.name, "path": "/tmp/data/1"}
    for size, shown in ((3000, 8192), (5000, 1500)):
        room = Room(spoken(size), shown=1500, whole=3000)
        assert room.run("fetch_to_sandbox", request)[0]["preview"] == f"of {min(shown, 3000)}"


def test_a_command_returns_its_status_and_streams() -> None:
    room = Room()
    room.sandbox.answer = lambda _: ExecResult(2, Output("out", 3, 0), Output("err", 3, 0), 0.1)
    content, result = room.run("sandbox_exec", {"command": "grep x y"}, number=7)
    assert content == {"exit_code": 2, "stdout": "out", "stderr": "err"}
    assert not result.is_error
    assert room.sandbox.commands == [("grep x y", 120.0, 7)]


def test_the_model_may_shorten_the_time_limit_but_not_lengthen_it() -> None:
    room = Room()
    room.run("sandbox_exec", {"command": "x", "timeout_seconds": 5})
    room.run("sandbox_exec", {"command": "x", "timeout_seconds": 5000})
    assert [timeout for _, timeout, _ in room.sandbox.commands] == [5, 120]


def test_spilled_output_names_its_file_and_size() -> None:
    room = Room()
    spilled = Output("head … tail", 10_000_000, 5000, "/tmp/_out/3.txt", file_size=9_000_000)
    room.sandbox.answer = lambda _: ExecResult(0, spilled, EMPTY, 0.1)
    content, _ = room.run("sandbox_exec", {"command": "x"})
    assert content["stdout_file"] == "/tmp/_out/3.txt"
    assert content["stdout_bytes"] == 10_000_000
    assert "9000000" in content["stdout_cut"]


def test_a_time_out_and_a_kill_are_said() -> None:
    room = Room()
    room.sandbox.answer = lambda _: ExecResult(None, EMPTY, EMPTY, 120.0, timed_out=True)
    assert "120 seconds" in room.run("sandbox_exec", {"command": "x"})[0]["timed_out"]
    room.sandbox.answer = lambda _: ExecResult(137, EMPTY, EMPTY, 1.0)
    assert "perhaps for want of memory" in room.run("sandbox_exec", {"command": "x"})[0]["killed"]


@pytest.mark.parametrize(("known", "memory"), [(True, True), (False, False)])
def test_a_kill_is_for_want_of_memory_only_where_the_kernel_says_so(
    known: bool, memory: bool
) -> None:
    room = Room()
    room.sandbox.answer = lambda _: ExecResult(137, EMPTY, EMPTY, 1.0, out_of_memory=known)
    killed = room.run("sandbox_exec", {"command": "x"})[0]["killed"]
    assert ("memory" in killed) is memory


def test_secrets_in_output_do_not_reach_the_model() -> None:
    room = Room()
    leak = Output("hunter22", 8, 0)
    room.sandbox.answer = lambda _: ExecResult(0, leak, leak, 0.1)
    content, _ = room.run("sandbox_exec", {"command": "x"})
    assert (content["stdout"], content["stderr"]) == ("[redacted]", "[redacted]")


def test_a_small_document_is_inline_and_a_large_one_a_file_with_a_preview() -> None:
    content, _ = Room(SMALL).run(SPEC.name, {})
    assert content == {"result": {"title": "x"}}
    room = Room(LARGE)
    content, result = room.run(SPEC.name, {}, number=4)
    assert content["saved_to"] == "/tmp/_out/4.txt"
    assert (content["bytes"], content["lines"]) == (10_000, 2000)
    assert content["missing"] == "page 3 could not be read"
    assert room.sandbox.files["/tmp/_out/4.txt"] == LARGE.data
    assert len(result.content.encode()) < 5000


def test_a_document_is_fetched_to_a_file() -> None:
    room = Room(LARGE)
    request = {"source": SPEC.name, "arguments": {"a": 1}, "path": "/tmp/data/thing.txt"}
    content, _ = room.run("fetch_to_sandbox", request)
    assert content["saved_to"] == "/tmp/data/thing.txt"
    assert room.source.asked == ['{"a": 1}']
    assert room.sandbox.files["/tmp/data/thing.txt"] == LARGE.data


@pytest.mark.parametrize(("text", "lines"), [(b"a\nb\n", 2), (b"a\nb", 2), (b"", 0)])
def test_a_last_line_without_an_end_is_counted(text: bytes, lines: int) -> None:
    request = {"source": SPEC.name, "path": "/tmp/data/thing.txt"}
    room = Room(Document(CLEAN(text), DocumentKind.TEXT))
    assert room.run("fetch_to_sandbox", request)[0]["lines"] == lines


def test_a_batch_shares_one_preview_and_one_failure_does_not_spoil_the_rest() -> None:
    room = Room(LARGE)
    requests = [
        {"source": SPEC.name, "path": "/tmp/data/1"},
        {"source": "nope", "path": "/tmp/data/2"},
        {"source": SPEC.name, "path": "/etc/passwd"},
        {"source": SPEC.name, "path": "/tmp/data/4"},
    ]
    content, result = room.run("fetch_batch_to_sandbox", {"requests": requests})
    first, unknown, outside, last = content["results"]
    assert (first["saved_to"], last["saved_to"]) == ("/tmp/data/1", "/tmp/data/4")
    assert "'nope'" in unknown["error"]
    assert "/tmp/data/" in outside["error"]
    assert not result.is_error
    assert len(result.content.encode()) < 6000


@pytest.mark.parametrize("shown", [1024, 4096, 16_384])
def test_as_much_of_a_result_is_shown_as_the_operator_wants(shown: int) -> None:
    room = Room(Document(CLEAN(b"line\n" * 5000), DocumentKind.TEXT), shown=shown)
    single, _ = room.run(SPEC.name, {})
    saved, _ = room.run("fetch_to_sandbox", {"source": SPEC.name, "path": "/tmp/data/1"})
    two = [{"source": SPEC.name, "path": f"/tmp/data/{number}"} for number in range(2)]
    batch, _ = room.run("fetch_batch_to_sandbox", {"requests": two})
    for text, most in (
        (single["preview"], shown),
        (saved["preview"], shown),
        *((each["preview"], shown // 2) for each in batch["results"]),
    ):
        assert most - 200 < len(text.encode()) <= most
    whole = "x" * (shown * 5 // 4)
    fits = Room(Document(CLEAN(whole.encode()), DocumentKind.TEXT), shown=shown)
    assert fits.run(SPEC.name, {})[0] == {"result": whole}


def spoken(size: int) -> Document:
    """A diff of `size` bytes, whose preview says how much it was given."""
    data = CLEAN(b"x" * size)
    return Document(data, DocumentKind.TEXT, preview=lambda limit: f"of {limit}", shown_whole=8192)


def test_a_diff_of_eight_kilobytes_is_shown_whole_and_a_longer_one_in_part() -> None:
    request = {"source": SPEC.name, "path": "/tmp/data/1"}
    assert Room(spoken(8192)).run(SPEC.name, {})[0] == {"result": "of 8192"}
    assert Room(spoken(8192)).run("fetch_to_sandbox", request)[0]["preview"] == "of 8192"
    assert Room(spoken(8193)).run(SPEC.name, {})[0]["preview"] == "of 4096"
    assert Room(spoken(8193)).run("fetch_to_sandbox", request)[0]["preview"] == "of 4096"


def test_in_a_batch_one_diff_is_shown_whole_and_several_share_that() -> None:
    def batch(size: int, count: int) -> list[str]:
        requests = [{"source": SPEC.name, "path": f"/tmp/data/{n}"} for n in range(count)]
        others = [{"source": "nope", "path": f"/tmp/data/other{n}"} for n in range(3)]
        made, _ = Room(spoken(size)).run(
            "fetch_batch_to_sandbox", {"requests": [*requests, *others]}
        )
        return [each["preview"] for each in made["results"][:count]]

    assert batch(8000, 1) == ["of 8192"]
    assert batch(8000, 5) == ["of 512"] * 5


def test_a_file_that_is_only_saved_is_told_in_brief() -> None:
    long = Document(
        CLEAN(b"line\n" * 2000),
        DocumentKind.TEXT,
        preview=lambda limit: "the long one",
        brief=lambda limit: "ten lines",
    )
    request = {"source": SPEC.name, "path": "/tmp/data/1"}
    assert Room(long).run("fetch_to_sandbox", request)[0]["preview"] == "ten lines"
    assert Room(long).run(SPEC.name, {})[0]["preview"] == "the long one"


WRONG_CALLS = [
    ("no_such_tool", {}, "there is no tool 'no_such_tool'; there are: sandbox_exec"),
    ("sandbox_exec", {}, "command: Field required"),
    ("sandbox_exec", {"command": 3}, "command: Input should be a valid string"),
    ("sandbox_exec", {"command": "x", "cwd": "/"}, "cwd: Extra inputs are not permitted"),
    ("sandbox_exec", "{not json", "Invalid JSON"),
    ("sandbox_exec", "[1]", "arguments: "),
    ("fetch_to_sandbox", {"source": SPEC.name, "path": "/tmp/data/../x"}, "not a file path"),
    ("fetch_to_sandbox", {"source": SPEC.name, "path": "/tmp/data/"}, "not a file path"),
    ("fetch_batch_to_sandbox", {"requests": []}, "requests: List should have at least 1"),
]


@pytest.mark.parametrize(("name", "arguments", "says"), WRONG_CALLS)
def test_a_wrong_call_is_a_value_the_model_can_act_on(name: str, arguments: Any, says: str) -> None:
    content, result = Room().run(name, arguments)
    assert says in content["error"]
    assert result.is_error
    assert result.call_id == "c"


def test_what_the_workflow_does_not_allow_is_no_tool() -> None:
    content, result = Room(pattern="exec").run(SPEC.name, {})
    assert content["error"] == f"there is no tool {SPEC.name!r}; there are: sandbox_exec"
    assert result.is_error


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sandbox_exec", {f"field_{number}": number for number in range(10_000)}),
        ("sandbox_exec", {"command": "ls", "x" * 1_000_000: 1}),
        ("fetch_to_sandbox", {"source": "x" * 1_000_000, "path": "/tmp/data/1"}),
        ("x" * 1_000_000, {}),
    ],
)
def test_what_is_wrong_with_a_call_is_told_in_few_words(name: str, arguments: Any) -> None:
    content, result = Room().run(name, arguments)
    assert result.is_error
    assert len(content["error"].encode()) <= 2560


def test_what_a_source_cannot_give_is_a_value_that_says_why() -> None:
    content, result = Room(SourceError("job 5: the log has expired")).run(SPEC.name, {})
    assert content == {"unavailable": "job 5: the log has expired"}
    assert result.is_error


def test_a_dead_sandbox_is_never_shown_as_output() -> None:
    room = Room()
    room.sandbox.gone = True
    with pytest.raises(SandboxLost):
        room.run("sandbox_exec", {"command": "x"})


def test_calls_are_answered_in_order_and_numbered_on() -> None:
    room = Room(LARGE)
    calls = [call("a", SPEC.name), call("b", "sandbox_exec", '{"command": "x"}')]
    ran = list(room.toolbox.run(calls, 5))
    assert [one.result.call_id for one in ran] == ["a", "b"]
    assert "/tmp/_out/5.txt" in room.sandbox.files
    assert room.sandbox.commands[0][2] == 6


def test_a_misspelt_name_near_exactly_one_tool_is_run_as_that_tool_with_a_hint() -> None:
    content, result = Room().run("sandbox_exce", {"command": "x"})
    assert content["exit_code"] == 0
    assert "sandbox_exec" in content["hint"]
    assert result.name == "sandbox_exce"
    content, _ = Room().run("gitlab_get_thinng", {})
    assert content["result"] == {"title": "x"}


def test_calls_that_only_read_run_side_by_side_and_answer_in_call_order() -> None:
    together = threading.Barrier(3, timeout=5)

    class Meeting(FixedSource):
        def fetch(self, arguments: str) -> Document:
            together.wait()
            return super().fetch(arguments)

    room = Room()
    bench = ToolContext(room.sandbox, {SPEC.name: Meeting(SPEC, SMALL)}, 120.0, lambda text: text)
    toolbox = WorkflowToolbox(bench, lambda name: True)
    ran = list(toolbox.run([call(id, SPEC.name) for id in "abc"], 0))
    assert [one.result.call_id for one in ran] == ["a", "b", "c"]
    assert not any(one.result.is_error for one in ran)


def test_a_command_waits_for_the_calls_before_it_and_later_ones_wait_for_it() -> None:
    room, order = Room(), list[str]()

    class Noting(FixedSource):
        def fetch(self, arguments: str) -> Document:
            order.append(arguments)
            return SMALL

    def noting(command: str) -> ExecResult:
        order.append(command)
        return ExecResult(0, EMPTY, EMPTY, 0.0)

    room.sandbox.answer = noting
    bench = ToolContext(room.sandbox, {SPEC.name: Noting(SPEC, SMALL)}, 120.0, lambda text: text)
    calls = [
        call("a", SPEC.name, "1"),
        call("b", "sandbox_exec", '{"command": "2"}'),
        call("c", "sandbox_exec", '{"command": "3"}'),
        call("d", SPEC.name, "4"),
    ]
    list(WorkflowToolbox(bench, lambda name: True).run(calls, 0))
    assert order == ["1", "2", "3", "4"]


def test_what_a_source_says_of_its_failure_is_redacted() -> None:
    room = Room(SourceError("GitLab answered 500: token hunter22"))
    content, _ = room.run(SPEC.name, {})
    assert content == {"unavailable": "GitLab answered 500: token [redacted]"}
    one = {"source": SPEC.name, "path": "/tmp/data/x"}
    content, _ = room.run("fetch_batch_to_sandbox", {"requests": [one, one]})
    assert "hunter22" not in json.dumps(content)


def test_a_stream_goes_to_a_file_and_its_words_to_the_model() -> None:
    parts = [CLEAN(b"a"), CLEAN(b"b")]
    words = CLEAN(b"A tar.gz. Unpack it.\n")
    told = Document(words, DocumentKind.TEXT, chunks=lambda: iter(parts))
    room = Room(told)
    content, result = room.run(SPEC.name, {}, number=3)
    assert content == {
        "saved_to": "/tmp/_out/3.txt",
        "bytes": 2,
        "preview": "A tar.gz. Unpack it.\n",
    }
    assert not result.is_error
    assert room.sandbox.files["/tmp/_out/3.txt"] == b"ab"
    content, _ = room.run("fetch_to_sandbox", {"source": SPEC.name, "path": "/tmp/data/src.tar.gz"})
    assert content["saved_to"] == "/tmp/data/src.tar.gz"
    assert room.sandbox.files["/tmp/data/src.tar.gz"] == b"ab"


def test_a_stream_that_breaks_off_is_told_to_the_model() -> None:
    def chunks() -> Iterator[Redacted]:
        yield CLEAN(b"a")
        raise SourceError("the archive: GitLab did not answer in time")

    content, result = Room(Document(CLEAN(b""), chunks=chunks)).run(SPEC.name, {})
    assert content == {"unavailable": "the archive: GitLab did not answer in time"}
    assert result.is_error


@pytest.mark.parametrize("error", [KeyError("jobs"), ZeroDivisionError("hunter22"), EOFError()])
def test_an_unforeseen_exception_is_a_value_and_does_not_spoil_the_rest(error: Exception) -> None:
    content, result = Room(error).run(SPEC.name, {})
    assert f"{SPEC.name} failed: {type(error).__name__}" in content["error"]
    assert "hunter22" not in result.content
    room = Room(error)
    good = FixedSource(ToolSpec("gitlab_get_other", "", {}), SMALL)
    bench = ToolContext(room.sandbox, {SPEC.name: room.source, good.spec.name: good}, 1.0, str)
    requests = [
        {"source": name, "path": f"/tmp/data/{name}"} for name in (SPEC.name, good.spec.name)
    ]
    made = call("c", "fetch_batch_to_sandbox", json.dumps({"requests": requests}))
    (ran,) = WorkflowToolbox(bench, lambda name: True).run([made], 0)
    broken, other = json.loads(ran.result.content)["results"]
    assert (broken["source"], other["saved_to"]) == (SPEC.name, f"/tmp/data/{good.spec.name}")
    assert "failed" in broken["error"]


def test_a_misspelt_source_of_a_fetch_is_the_one_that_is_meant() -> None:
    one = {"source": "gitlab_get_thng", "path": "/tmp/data/1"}
    content, _ = Room().run("fetch_to_sandbox", one)
    assert content["saved_to"] == "/tmp/data/1"
    assert SPEC.name in content["hint"]
    content, _ = Room().run("fetch_batch_to_sandbox", {"requests": [one]})
    assert SPEC.name in content["results"][0]["hint"]


@pytest.mark.parametrize("again", ["/tmp/data/1", "/tmp/data//1", "/tmp/data/./1"])
def test_of_two_requests_of_a_batch_for_one_path_the_first_is_done(again: str) -> None:
    room = Room(LARGE)
    paths = ("/tmp/data/1", again, "/tmp/data/2")
    requests = [{"source": SPEC.name, "path": path} for path in paths]
    content, result = room.run("fetch_batch_to_sandbox", {"requests": requests})
    first, second, third = content["results"]
    assert (first["saved_to"], third["saved_to"]) == ("/tmp/data/1", "/tmp/data/2")
    assert "another request of this batch writes" in second["error"]
    assert len(room.source.asked) == 2
    assert not result.is_error


def test_two_calls_of_one_answer_for_one_path_run_in_order() -> None:
    apart = threading.Semaphore(1)

    class Alone(FixedSource):
        def fetch(self, arguments: str) -> Document:
            assert apart.acquire(blocking=False)
            document = Document(CLEAN(arguments.encode()), DocumentKind.TEXT)
            threading.Event().wait(0.05)
            apart.release()
            return document

    room = Room()
    bench = ToolContext(room.sandbox, {SPEC.name: Alone(SPEC, SMALL)}, 1.0, str)
    calls = [
        call(f"c{at}", "fetch_to_sandbox", json.dumps(request))
        for at, request in enumerate(
            {"source": SPEC.name, "arguments": {"n": n}, "path": "/tmp/data/1"} for n in range(3)
        )
    ]
    ran = list(WorkflowToolbox(bench, lambda name: True).run(calls, 0))
    assert not any(each.result.is_error for each in ran)
    assert room.sandbox.files["/tmp/data/1"] == b'{"n": 2}'


@pytest.mark.parametrize("requests", [3, None, [3], [{"path": 3}], {"path": "x"}])
def test_nonsense_beside_a_fetch_is_answered(requests: Any) -> None:
    calls = [
        call("a", "fetch_batch_to_sandbox", json.dumps({"requests": requests})),
        call("b", "fetch_to_sandbox", "[" * 100_000),
    ]
    ran = list(Room().toolbox.run(calls, 0))
    assert [each.result.is_error for each in ran] == [True, True]
