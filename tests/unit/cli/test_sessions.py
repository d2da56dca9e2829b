"""What `sandpiper sessions` tells of a store, whatever is in it."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests import forks
from tests.contexts import SUBJECT, context
from tests.terminals import run_on_terminal
from worker.cli.stored_sessions import find_sessions, read_rows
from worker.conversation import context_json
from worker.conversation.context import CallCost, Context, Outcome, SessionKey, Status
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, ToolCall, ToolResult, Usage, User
from worker.sessions import recent
from worker.sessions.folder import Folder, FolderStore
from worker.sessions.objects import Stored
from worker.sessions.store import SessionStore
from worker.verdict.jobs import Survey
from worker.verdict.project_memory import Fact, Source, add_fact, dump_facts, make_fact

DAMAGED = [b"", b"{", b"[]", b"\xff\xfe", b"[" * 200_000, b'{"schema": 1}', b'{"schema": 9}']


class Counted(Folder):
    """A folder that keeps the names of what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 10.0)
        self.read_names: list[str] = []

    def read(self, name: str, limit: int) -> Stored | None:
        self.read_names.append(name)
        return super().read(name, limit)


def made(number: int, project: int = 7, path: str = "aviary/tern") -> Context:
    """A session that began at that second."""
    return context(
        session_id=f"{number:020x}",
        subject=replace(SUBJECT, project_id=project, project=path),
        turn_usage=TurnUsage(started_at=float(number)),
        outcome=Outcome(Status.DONE, "text"),
    )


def keep(store: SessionStore, stored: Context, *, listed: bool = True) -> SessionKey:
    """Put it into the store as a turn that has ended."""
    key = stored.subject.make_key(stored.session_id)
    store.commit_turn(key, 0, context_json.dump_context(stored))
    if listed:
        store.recent_turns.put_row(
            key, 0, stored.turn_usage.started_at, recent.dump_row(recent.make_row(stored))
        )
    return key


def make_env(root: Path) -> dict[str, str]:
    return {"SANDPIPER_STORE": f"file://{root}", "GITLAB_URL": SUBJECT.gitlab_url}


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forks.run((forks.SANDPIPER, "sessions", *words), make_env(root), root, timeout=120)


def sessions(rows: Iterator[dict[str, object]]) -> list[int]:
    return [int(str(row["session"]), 16) for row in rows]


def test_the_newest_come_first_and_only_they_are_read(tmp_path: Path) -> None:
    objects = Counted(tmp_path)
    store = SessionStore(objects)
    for number in (5, 1, 30, 4, *range(6, 26)):
        keep(store, made(number))
    objects.read_names.clear()
    rows = read_rows(store, find_sessions(store, store.recent_turns))
    assert sessions(islice(rows, 3)) == [30, 25, 24]
    assert len([name for name in objects.read_names if name.endswith("context.json")]) == 3
    assert len(objects.read_names) == 6


def test_a_session_of_many_turns_is_one_line_of_its_latest(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    key = keep(store, made(1))
    reply = replace(made(1), turn=1, turn_usage=TurnUsage(started_at=9.0))
    store.commit_turn(key, 1, context_json.dump_context(reply))
    store.recent_turns.put_row(key, 1, 9.0, recent.dump_row(recent.make_row(reply)))
    keep(store, made(2))
    rows = list(read_rows(store, find_sessions(store, store.recent_turns)))
    assert [(row["session"], row["turns"]) for row in rows] == [
        (key.session_id, 2),
        (f"{2:020x}", 1),
    ]


def test_what_the_list_of_turns_lacks_comes_last(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    keep(store, made(1), listed=False)
    keep(store, made(2))
    keep(store, made(3))
    store.recent_turns.put_row(SessionKey(7, 42, f"{3:020x}"), 0, 4.0, b"no row")
    assert sessions(read_rows(store, find_sessions(store, store.recent_turns))) == [3, 2, 1]


@pytest.mark.slow
def test_one_project_is_named_by_its_id_its_path_or_a_glob(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    keep(store, made(1, 7, "aviary/tern"))
    keep(store, made(2, 8, "aviary/gull"))
    keep(store, made(3, 9, "harbour/quay"))
    keep(store, made(4, 8, "aviary/gull"), listed=False)

    def found(project: str, *words: str) -> list[int]:
        done = run(tmp_path, "list", "--json", "--project", project, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return [int(json.loads(line)["session"], 16) for line in done.stdout.splitlines()]

    assert found("8") == [2, 4]
    assert found("aviary/*") == [2, 1]
    assert found("aviary/gull", "--all") == [2, 4]
    assert found("aviary/none") == []


@pytest.mark.slow
def test_what_is_not_shown_is_said_with_the_way_to_it(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for number in range(1, 53):
        keep(store, made(number))
    done = run(tmp_path, "list")
    assert len(done.stdout.splitlines()) == 50
    assert "--limit N, or --all" in done.stderr
    whole = run(tmp_path, "list", "--all")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (52, "")


@pytest.mark.slow
def test_a_damaged_session_is_a_line_that_says_so_among_the_others(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for number in range(len(DAMAGED) + 2):
        keep(store, made(number))
    for number, data in enumerate(DAMAGED, 1):
        path = tmp_path / f"sessions/7/42/{number:020x}/0000/context.json"
        path.write_bytes(data)
    done = run(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    first, *damaged, last = done.stdout.splitlines()
    assert "done" in first
    assert "done" in last
    assert len(damaged) == len(DAMAGED)
    cells = [re.split(" {2,}", line) for line in damaged]
    assert {tuple(each[1:4]) for each in cells} == {("-", "-", "damaged")}
    assert all(each[4].startswith(f"7!42 {tmp_path}") for each in cells)
    rows = [json.loads(line) for line in run(tmp_path, "list", "--json").stdout.splitlines()]
    assert [row["status"] for row in rows] == ["done", *["damaged"] * len(DAMAGED), "done"]


@pytest.mark.slow
def test_what_a_stored_session_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    keep(FolderStore(tmp_path), replace(made(1), model="\x1b[2J\nfake line"))
    (line,) = run(tmp_path, "list").stdout.splitlines()
    assert "\x1b" not in line


@pytest.mark.slow
def test_a_name_that_a_model_invents_cannot_steer_the_terminal(tmp_path: Path) -> None:
    name = "look\x1b[2J\nforged: line"
    said = (Assistant("", (ToolCall("a", name, "{}"),)), ToolResult("a", name, "no such tool"))
    turn = made(1)
    key = keep(FolderStore(tmp_path), replace(turn, messages=(*turn.messages, *said)))
    shown = run(tmp_path, "show", key.session_id).stdout
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert "  → look forged: line" in lines
    assert lines[lines.index("look forged: line:") + 1] == "  no such tool"


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 200_000])
def test_a_damaged_session_is_refused_in_one_line_and_its_bytes_can_be_had(
    tmp_path: Path, data: bytes
) -> None:
    key = keep(FolderStore(tmp_path), made(1))
    (tmp_path / f"sessions/7/42/{key.session_id}/0000/context.json").write_bytes(data)
    shown = run(tmp_path, "show", key.session_id)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith("sandpiper: ")
    assert "cannot be read" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert run(tmp_path, "show", key.session_id, "--json").stdout.rstrip("\n") == data.decode(
        errors="surrogateescape"
    )


def remember(store: SessionStore, project: int) -> None:
    """Two facts of a project, on two days."""
    facts: tuple[Fact, ...] = ()
    for number, day in ((1, 1_795_219_200.0), (2, 1_795_305_600.0)):
        source, text = Source(number, f"{number:020x}"), f"e2e: flaky: cause \x1b[31m{number}."
        facts = add_fact(facts, make_fact(text, "flaky", Survey(), day, source))
    store.known_failures.change_memory(project, lambda data: dump_facts(facts))


def test_what_is_remembered_of_a_project_is_listed_by_its_id_or_path(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    keep(store, made(1))
    remember(store, 7)
    by_id, by_path = (run(tmp_path, "memory", each) for each in ("7", "aviary/tern"))
    assert by_id.stdout == by_path.stdout, by_path.stderr
    assert by_id.stdout.split("\n") == [
        f"2026-11-22  e2e: flaky: cause (31m2.  !2  {2:020x}",
        f"2026-11-21  e2e: flaky: cause (31m1.  !1  {1:020x}",
        "",
    ]
    rows = run(tmp_path, "memory", "7", "--json").stdout.splitlines()
    assert json.loads(rows[0]) == {
        "date": "2026-11-22",
        "fact": "e2e: flaky: cause (31m2.",
        "count": 1,
        "sources": [f"!2/{2:020x}"],
    }


def test_of_a_project_that_nothing_is_remembered_of_that_is_said(tmp_path: Path) -> None:
    keep(FolderStore(tmp_path), made(1))
    told = run(tmp_path, "memory", "aviary/tern")
    assert (told.returncode, told.stdout) == (0, "")
    assert "nothing is remembered of aviary/tern" in told.stderr
    told = run(tmp_path, "memory", "aviary/gull")
    assert told.returncode == 1
    assert "give its id" in told.stderr


# ------------------------------------------------------------------------------ what a person reads


def found(number: int, title: str, **changes: Any) -> Context:
    """A session of a merge request with this title that has found its cause."""
    at = made(number)
    subject = replace(at.subject, title=title)
    return replace(at, subject=subject, verdict="already failing on the target branch", **changes)


def test_a_line_has_date_verdict_state_and_title_in_steady_columns(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    keep(store, found(1_795_219_200, "Join  windows\nthat touch " + "ü" * 200))
    keep(store, found(1_795_219_260, "", dry_turns=(0,)))
    keep(store, made(0))
    begun = replace(made(1_795_219_320), outcome=None)
    store.recent_turns.put_row(
        SessionKey(7, 42, begun.session_id),
        *(0, 1_795_219_320.0, recent.dump_row(recent.make_row(begun))),
    )
    done = run(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    target = "already failing on the target branch"
    assert [re.split(" {2,}", line) for line in done.stdout.splitlines()] == [
        [begun.session_id, "2026-11-21 00:02", "-", "running", "aviary/tern!42"],
        [f"{1_795_219_260:020x}", "2026-11-21 00:01", target, "done", "(dry run) aviary/tern!42"],
        [
            *(f"{1_795_219_200:020x}", "2026-11-21 00:00", target, "done"),
            "aviary/tern!42 Join windows that touch " + "ü" * 200,
        ],
        [f"{0:020x}", "1970-01-01 00:00", "-", "done", "aviary/tern!42"],
    ]
    starts = {line.index("aviary") - 10 * ("dry" in line) for line in done.stdout.splitlines()}
    assert len(starts) == 1
    rows = [json.loads(line) for line in run(tmp_path, "list", "--json").stdout.splitlines()]
    assert [row["dry_run"] for row in rows] == [False, True, False, False]
    assert (rows[2]["date"], rows[2]["verdict"]) == ("2026-11-21T00:00:00Z", target)
    assert rows[2]["title"].startswith("Join  windows")


def test_on_a_terminal_a_line_has_eighty_columns_and_an_id_that_show_takes(tmp_path: Path) -> None:
    at = found(1_795_219_200, "Join windows 窓" * 40)
    keep(FolderStore(tmp_path), replace(at, session_id="8badf00d" + "0" * 12))
    shown = run_on_terminal(("sessions", "list"), make_env(tmp_path), tmp_path)
    head, line = shown.splitlines()
    assert head.split() == ["session", "date", "(UTC)", "verdict", "state", "merge", "request"]
    assert cell_len(line) <= 80
    assert line.endswith("…")
    short, *_ = line.split()
    assert len(short) == 8
    assert run(tmp_path, "show", short).returncode == 0


def test_a_beginning_that_two_sessions_share_is_refused_with_a_reason(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for number in (1, 2):
        keep(store, made(number))
    shown = run(tmp_path, "show", "00000")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "sandpiper: several session ids begin with 00000: give more of it\n"


def test_who_said_what_is_told_with_what_it_took(tmp_path: Path) -> None:
    arguments = json.dumps({"command": "grep -n boom\nlog", "seconds": 3})
    result = json.dumps({"exit_code": 0, "stdout": "\n".join(f"line {n}" for n in range(20))})
    at = replace(
        found(1, "Join windows", dry_turns=(0,), note_text="<!-- sandpiper -->\n**Flaky**\n"),
        messages=(
            User("the event"),
            Assistant("I look.\nHere:", (ToolCall("a", "sandbox_exec", arguments),)),
            ToolResult("a", "sandbox_exec", result),
            Assistant("## Cause\nA race."),
        ),
        usage=Usage(uncached_input=600, cache_read=400, output=50),
        cost_usd=0.25,
        calls=tuple(CallCost(0, "m", Usage(), 0.1, task=task) for task in ("", "", "plan")),
    )
    key = keep(FolderStore(tmp_path), at)
    shown = run(tmp_path, "show", key.session_id).stdout
    *_, note, said = shown.partition("The note\n")
    assert "dry run        nothing of it was posted\n" in shown
    assert "merge request  aviary/tern!42 Join windows\n" in shown
    assert note
    assert said == (
        "--------\n**Flaky**\n\n"
        "sandpiper:\n  the event\n\n"
        "model:\n  I look.\n  Here:\n  → sandbox_exec command=grep -n boom log seconds=3\n\n"
        "sandbox_exec:\n  exit_code: 0\n  stdout:\n"
        + "".join(f"    line {n}\n" for n in range(8))
        + "    … 12 more lines\n\n"
        "model:\n  ## Cause\n  A race.\n\n"
        "2 steps and 1 question to the helper, 1,000 tokens in (40% cached), 50 out, $0.2500\n"
    )
    stored = tmp_path / f"sessions/7/42/{key.session_id}/0000/context.json"
    assert run(tmp_path, "show", key.session_id, "--json").stdout == stored.read_text() + "\n"


def test_the_session_of_a_branch_is_listed_and_shown_by_its_branch(tmp_path: Path) -> None:
    at = found(1_795_219_200, "")
    of_branch = replace(at, subject=replace(at.subject, mr_iid=0, branch="release/1"))
    keep(FolderStore(tmp_path), of_branch)
    keep(FolderStore(tmp_path), replace(of_branch, session_id="8badf00d" + "0" * 12), listed=False)
    done = run(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["aviary/tern@release/1"] * 2
    shown = run(tmp_path, "show", "8badf00d")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"branch +aviary/tern@release/1\n", shown.stdout)
    assert "merge request" not in shown.stdout
