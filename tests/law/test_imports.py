"""Who may import whom. One row for each room; a room may always import itself and the stdlib."""

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pytest

from tests.law.house import Module, imports, inside, none, parse, product


@dataclass(frozen=True, slots=True)
class Room:
    """What the modules of one room may import: of the house, and of other people's packages."""

    house: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


PURE = (
    *("worker.safety", "worker.logs", "worker.ledger", "worker.verdict", "worker.incidents"),
    *("worker.conversation", "worker.answer"),
)
"""No I/O, clock or chance: what these rooms return follows from what they are given."""

FLOOR = ("worker.errors", "worker.safety", "worker.stored_keys")
# The image's own programs rate lines and cut them by the same words; they import nothing.
LOGS = (*FLOOR, "worker.logs", "sandbox.image.failure_words", "sandbox.image.preview")
LEDGER = (*LOGS, "worker.ledger")
SETTINGS = (*LOGS, "worker.settings")
VERDICT = (*SETTINGS, "worker.ledger", "worker.verdict")
INCIDENTS = (*VERDICT, "worker.incidents")
CONVERSATION = (*INCIDENTS, "worker.conversation")
ANSWER = (*CONVERSATION, "worker.answer")
ADAPTER = (*CONVERSATION, "worker.clock", "worker.transport")
"""What every adapter may know. None knows another one, unless its row says so."""
TURNS = (
    *(*ANSWER, "worker.clock", "worker.log", "worker.turns", "worker.sessions"),
    *("worker.gitlab.ports", "worker.gitlab.read.gitlab_reader", "worker.queue.journal"),
    "worker.queue.leases",
    *("worker.tools.source", "sandbox.background", "sandbox.base"),
)
JOBS = (*TURNS, "worker.queue", "worker.jobs")
COMMANDS = (*JOBS, "worker.app", "worker.telemetry.parts", "worker.wiring")

ROOMS = {
    # Why a server does not answer is told apart in one place for all; nothing else of the worker.
    "sandbox": Room(
        ("sandbox.image", "sandbox.kubernetes", "worker.transport.failures"),
        outside=("docker", "requests", "urllib3"),
    ),
    "sandbox.kubernetes": Room(
        ("sandbox", "worker.transport.failures"),
        outside=("httpx", "lightkube", "websockets", "yaml"),
    ),
    "sandbox.image": Room(),
    "worker.errors": Room(),
    "worker.clock": Room(),
    "worker.health": Room(),
    "worker.stored_keys": Room(),
    "worker.log": Room(FLOOR),
    # Two packages that are as pure as `re`: one finds fifty words at once, one reads Markdown.
    "worker.safety": Room(FLOOR, ("ahocorasick_rs", "markdown_it")),
    "worker.logs": Room(LOGS, ("ahocorasick_rs",)),
    # Which single tests have failed: a value of its own, below what the record proves.
    "worker.ledger": Room(LEDGER),
    "worker.settings": Room(SETTINGS, ("pydantic", "yaml")),
    "worker.verdict": Room(VERDICT),
    "worker.incidents": Room(INCIDENTS, ("pydantic",)),
    "worker.conversation": Room(CONVERSATION, ("markdown_it", "pydantic")),
    "worker.answer": Room(ANSWER, ("jinja2", "markdown_it")),
    "worker.transport": Room(outside=("httpcore", "httpx", "requests", "urllib3")),
    "worker.tools": Room((*ADAPTER, "sandbox.base", "sandbox.tools"), ("pydantic",)),
    # What both tokens need. What reads and what writes never meet.
    "worker.gitlab": Room(ADAPTER, ("gitlab", "requests", "urllib3")),
    "worker.gitlab.read": Room(
        (*ADAPTER, "worker.gitlab.client", "worker.gitlab.ports", "worker.tools"),
        ("gitlab", "httpx", "ijson", "pydantic", "requests"),
    ),
    "worker.gitlab.write": Room(
        (*ADAPTER, "worker.answer", "worker.gitlab.client", "worker.gitlab.ports"),
        ("gitlab", "requests"),
    ),
    "worker.sources": Room((*ADAPTER, "worker.gitlab.read", "worker.tools"), ("httpx", "pydantic")),
    # Google's and Amazon's own packages: who they take for the default account is theirs to say.
    "worker.models": Room((*ADAPTER, "worker.answer"), ("botocore", "google", "httpx")),
    "worker.sessions": Room(
        (*ADAPTER, "worker.answer"), ("boto3", "botocore", "mypy_boto3_s3", "redis", "urllib3")
    ),
    # A trigger from the answer 202 to its end, through crashes of workers and brokers.
    # A refused login is told by the errors of the brokers' own libraries: kombu has none for it.
    "worker.queue": Room((*ADAPTER, "worker.sessions"), ("amqp", "celery", "kombu", "redis")),
    # One turn of a session: it knows the ports and the note's text, no adapter.
    "worker.turns": Room(TURNS),
    # What each kind of trigger asks for.
    "worker.jobs": Room(JOBS, ("celery", "kombu", "pydantic")),
    "worker.app": Room((*JOBS, "worker.wiring"), ("celery",)),
    "worker.webhook": Room(
        ADAPTER, ("anyio", "httpx", "joserfc", "pydantic", "starlette", "uvicorn")
    ),
    # A stored archive is read by what unpacks it: one reader of what a sandbox has made. Who signs
    # in is told by GitLab's signature, as is a CI job that asks.
    "worker.pages": Room(
        (*JOBS, "sandbox.image", "worker.transport", "worker.webhook.id_tokens"),
        ("anyio", "httpx", "jinja2", "markdown_it", "markupsafe", "pydantic", "starlette"),
    ),
    # Around the parts of a job: what it decorates, and no adapter.
    "worker.telemetry": Room(
        (*TURNS, "worker.models.wrapper", "worker.transport"),
        ("opentelemetry", "prometheus_client", "requests"),
    ),
    # The doctor looks at all parts as it is given them; it asks GitLab by itself, with any token.
    "worker.doctor": Room(
        (
            *(*ADAPTER, "worker.gitlab.client", "worker.models.discovery", "worker.sessions"),
            *("sandbox.base", "sandbox.engine", "sandbox.kubernetes", "sandbox.spec"),
        ),
        ("httpx",),
    ),
    # Strict simulators, cases, and what plays and scores them.
    "worker.lab": Room(
        (*TURNS, "worker.gitlab.read", "worker.tools"),
        ("httpx", "markdown_it", "pydantic", "starlette", "uvicorn", "yaml"),
    ),
    # The one place that names concrete adapters.
    "worker.wiring": Room(
        (
            *(*JOBS, "sandbox", "worker.doctor", "worker.gitlab", "worker.models", "worker.pages"),
            *("worker.sources", "worker.telemetry", "worker.tools", "worker.transport"),
            "worker.webhook",
        ),
        ("celery", "starlette"),
    ),
    # A command may look at any part that it shows; what does the job comes from `wiring`.
    "worker.cli": Room(
        (*COMMANDS, "sandbox", "worker.doctor", "worker.models"), ("click", "rich", "uvicorn")
    ),
    **{
        f"worker.cli.{command}": Room((*COMMANDS, "worker.cli", "worker.lab"), ("click", "rich"))
        for command in ("demo", "eval", "replay", "report")
    },
}

COMPOSERS = (
    *("worker.app", "worker.cli", "worker.doctor", "worker.lab", "worker.settings"),
    "worker.wiring",
)
"""Who knows all settings. Everybody else is given the classes of those that concern it."""

IMPURE = {
    *("asyncio", "concurrent", "ctypes", "fcntl", "glob", "http", "importlib", "io"),
    *("mmap", "multiprocessing", "os", "pathlib", "queue", "random", "sched", "secrets", "select"),
    *("selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess"),
    *("sys", "tempfile", "threading", "time", "uuid"),
}
"""What a pure room may not import even of the standard library. A line in the log is no result."""


def violations(modules: Iterable[Module], known: Collection[str]) -> list[str]:
    """One line for each import that the table does not allow."""
    return [
        f"{module.path}:{line}: {module.name} imports {target}: {_explain(module.name)}"
        for module in modules
        for line, target in imports(module, known)
        if not _allowed(module.name, target)
    ]


def _explain(importer: str) -> str:
    """Say which row would have to allow an import."""
    own = inside(importer, ROOMS)
    if own is None:
        return "it is in no room; a new one is a row of ROOMS in tests/law/test_imports.py"
    return f"the row of {own} in ROOMS, tests/law/test_imports.py, does not allow it"


def _allowed(importer: str, target: str) -> bool:
    top = target.partition(".")[0]
    own = inside(importer, ROOMS)
    if own is None:
        return importer == "worker" and top in sys.stdlib_module_names
    if target == "worker":
        return True
    if target == "worker.settings":
        return inside(importer, COMPOSERS) is not None
    if top in ("worker", "sandbox"):
        return inside(target, ROOMS) == own or inside(target, ROOMS[own].house) is not None
    if own in PURE and top in IMPURE:
        return False
    return top in sys.stdlib_module_names or top in ROOMS[own].outside


def cycles(modules: Iterable[Module]) -> list[str]:
    """The imports that stand in a cycle of modules, as "a imports b"."""
    return [f"{name} imports {target}" for name, target in _find_circles(set(_edges(modules)))]


def knots(modules: Collection[Module]) -> list[str]:
    """The imports that stand in a cycle of rooms or, within a package, of its sub-rooms."""
    edges = set(_edges(modules))
    found = []
    names = {name for name, _ in edges}
    packages = {name[:at] for name in names for at, sign in enumerate(name) if sign == "."}
    for package in sorted(packages):
        children = {
            (_find_child(package, start), _find_child(package, end)) for start, end in edges
        }
        between = {(start, end) for start, end in children if start and end and start != end}
        found += [f"{package}: {name} imports {target}" for name, target in _find_circles(between)]
    return found


def _edges(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    by_name = {module.name: module for module in modules}
    for name, module in by_name.items():
        for _, target in imports(module, by_name):
            if target in by_name and target != name:
                yield name, target


def _find_child(package: str, name: str) -> str | None:
    """The part of `package` in which the module `name` is; None outside, and for itself."""
    head = f"{package}."
    return head + name.removeprefix(head).partition(".")[0] if name.startswith(head) else None


def _find_circles(edges: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges whose end leads back to their start."""
    while ends := {
        (name, target)
        for name, target in edges
        if target not in {start for start, _ in edges} or name not in {end for _, end in edges}
    }:
        edges = edges - ends
    return sorted(edges)


def names() -> set[str]:
    """Every module of the product."""
    return {module.name for module in product()}


def test_every_room_imports_only_what_its_row_allows() -> None:
    assert none(violations(product(), names()))


def test_no_module_imports_itself_through_others() -> None:
    assert none(cycles(product()), "take one of these imports out of the circle")


def test_no_room_imports_itself_through_others() -> None:
    assert none(knots(product()), "move what both need into the lower one, or beside both")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("worker/verdict/planted.py", "import time"),
        ("worker/safety/planted.py", "import httpx"),
        ("worker/logs/planted.py", "from worker.verdict import facts"),
        ("worker/ledger/planted.py", "from worker.verdict import facts"),
        ("worker/verdict/planted.py", "from worker.conversation import context"),
        ("worker/conversation/planted.py", "from worker.tools import toolbox"),
        ("worker/answer/planted.py", "def late():\n    from os import environ"),
        ("worker/sources/planted.py", "from worker.answer import note"),
        ("worker/gitlab/read/planted.py", "from ..write import writer"),
        ("worker/gitlab/write/planted.py", "import worker.gitlab.read.client"),
        ("worker/tools/planted.py", "from worker import wiring"),
        ("worker/tools/planted.py", "from worker.settings import Settings"),
        ("worker/tools/planted.py", "from sandbox import docker"),
        ("worker/queue/planted.py", "from worker.turns import turn"),
        ("worker/turns/turn.py", "from worker.jobs import dispatch"),
        ("worker/turns/turn.py", "from worker.gitlab.write import writer"),
        ("worker/turns/turn.py", "from worker.wiring import stores"),
        ("worker/telemetry/planted.py", "from worker.models import client"),
        ("worker/wiring/process.py", "from worker.lab import story"),
        ("worker/cli/serve.py", "from worker.lab import story"),
        ("worker/lab/planted.py", "from worker.sources import reader"),
        ("sandbox/planted.py", "from worker.errors import SandpiperError"),
        ("sandbox/image/planted.py", "import docker"),
        ("worker/novelty.py", "import json"),
    ],
)
def test_a_planted_violation_is_found(path: str, source: str) -> None:
    known = {
        *("worker.tools.toolbox", "worker.gitlab.write.writer", "worker.gitlab.read.client"),
        *("worker.wiring", "worker.lab.story", "sandbox.docker", "worker.turns.turn"),
    }
    line = 1 + source.count("\n")
    found = violations([parse(path, source)], known)
    assert [each.split(": ")[0] for each in found] == [f"{path}:{line}"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("worker/verdict/planted.py", "import json\nfrom worker.logs import trace"),
        ("worker/sources/planted.py", "from worker.sources import reader"),
        ("worker/gitlab/write/planted.py", "from worker.gitlab import client"),
        ("worker/turns/turn.py", "from worker.answer.note import note"),
        ("worker/tools/planted.py", "from worker.settings.loop import LoopSettings"),
        ("worker/cli/demo.py", "from worker.lab import story"),
        ("worker/tools/planted.py", "from sandbox.base import Sandbox"),
    ],
)
def test_an_allowed_import_is_not_found(path: str, source: str) -> None:
    known = {"worker.answer.note.note", "worker.lab.story", "worker.gitlab.client"}
    assert violations([parse(path, source)], known) == []


def test_a_planted_cycle_is_found() -> None:
    planted = [
        parse("worker/a.py", "from worker import b"),
        parse("worker/b.py", "def late():\n    import worker.c"),
        parse("worker/c.py", "from worker.a import thing"),
        parse("worker/d.py", "import worker.a, worker.e"),
        parse("worker/e.py", "import json"),
    ]
    assert cycles(planted) == [
        "worker.a imports worker.b",
        "worker.b imports worker.c",
        "worker.c imports worker.a",
    ]


def test_a_planted_knot_of_rooms_is_found_at_every_level() -> None:
    planted = [
        parse("worker/a/one.py", "from worker.b.two import x"),
        parse("worker/b/two.py", "import json"),
        parse("worker/b/three.py", "from worker.a.four import y"),
        parse("worker/a/four.py", "from worker.a.in_side.five import z"),
        parse("worker/a/in_side/five.py", "import json"),
        parse("worker/a/in_side/six.py", "from worker.a.four import y"),
    ]
    assert cycles(planted) == []
    assert knots(planted) == [
        "worker: worker.a imports worker.b",
        "worker: worker.b imports worker.a",
        "worker.a: worker.a.four imports worker.a.in_side",
        "worker.a: worker.a.in_side imports worker.a.four",
    ]
