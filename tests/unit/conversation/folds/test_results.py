import json

import pytest

from worker.conversation.folds import (
    KEPT_BYTES,
    Fold,
    FoldKind,
    find_missing_file,
    list_missing_files,
    shorten_result,
)
from worker.conversation.messages import Message, ToolResult, User

LONG = "é" * 1000


def result(**content: object) -> ToolResult:
    return ToolResult("c1", "look", json.dumps(content, ensure_ascii=False))


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"result": LONG}, "/tmp/_out/4.txt"),
        ({"error": LONG}, "/tmp/_out/4.txt"),
        ({"saved_to": "/tmp/data/a.log", "preview": LONG}, ""),
        ({"stdout": LONG, "stdout_file": "/tmp/_out/4.txt"}, ""),
        (
            {"stdout": LONG, "stdout_file": "/tmp/_out/4.txt", "stderr": LONG},
            "/tmp/_out/4.json",
        ),
        ({"stdout": LONG}, "/tmp/_out/4.txt"),
        ({"results": [{"saved_to": "/tmp/data/a"}, {"saved_to": "/tmp/data/b"}]}, ""),
        ({"results": [{"saved_to": "/tmp/data/a"}, {"unavailable": LONG}]}, "/tmp/_out/4.txt"),
        ({"results": []}, "/tmp/_out/4.txt"),
    ],
)
def test_what_lies_in_no_file_is_written_to_one(content: dict[str, object], path: str) -> None:
    assert find_missing_file(result(**content), 4) == path


def test_a_result_that_is_no_json_is_written_too() -> None:
    assert find_missing_file(ToolResult("c1", "look", "[" * 10_000), 0) == "/tmp/_out/0.txt"


def test_a_short_result_stays() -> None:
    short = ToolResult("c1", "look", "x" * KEPT_BYTES)
    assert shorten_result(short, 0, 200) is short


def test_a_long_result_keeps_head_tail_and_place() -> None:
    long = ToolResult("c1", "look", json.dumps({"result": f"begin {LONG} end"}), is_error=True)
    shown = shorten_result(long, 7, 200)
    content = json.loads(shown.content)
    assert "begin" in content["head"]
    assert "end" in content["tail"]
    size = len(long.content.encode())
    assert content["pruned"] == f"[pruned: {size} bytes; whole in /tmp/_out/7.txt]"
    assert (shown.call_id, shown.name, shown.is_error) == ("c1", "look", True)


def test_only_what_a_fold_hides_is_written() -> None:
    short, long = ToolResult("a", "look", "{}"), ToolResult("b", "look", "x" * 2000)
    messages: list[Message] = [User("event"), short, long, long]
    prune = Fold(FoldKind.PRUNE, 1, 3, made_at=4)
    assert [path for path, _ in list_missing_files(messages, [prune])] == ["/tmp/_out/1.txt"]
    window = Fold(FoldKind.WINDOW, 1, 3, made_at=4)
    written = dict(list_missing_files(messages, [window]))
    assert written == {"/tmp/_out/0.txt": "{}", "/tmp/_out/1.txt": "x" * 2000}
