"""Who may import whom. One row for each room; a room may always import itself and the stdlib."""

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pytest

from tests.law.house import Module, imports, inside, none, parse, product


@dataclass(frozen=True, slots=True)
class Room:
    """What the modules of one room may import: of the house, and of other people's packages."""

    house: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


PURE = ("worker.core", "worker.errors")
FLOOR = (*PURE, "worker.tools.arguments")
SERVICE = (*PURE, "worker.jobs", "worker.log", "worker.settings", "worker.turns", "worker.wiring")
COMMANDS = (
    *(*SERVICE, "worker.app", "worker.maintenance", "worker.queue.broker", "worker.jobs.process"),
    *("worker.jobs.process", "worker.doctor.shadows", "worker.telemetry.parts"),
)

ROOMS = {
    # Why a server does not answer is told apart in one place for all; nothing else of the worker.
    "sandbox": Room(
        ("sandbox.image", "sandbox.kubernetes", "worker.transport.failures"),
        outside=("docker", "requests", "urllib3"),
    ),
    "sandbox.kubernetes": Room(
        (
            *("sandbox.base", "sandbox.framed", "sandbox.seccomp", "sandbox.spec", "sandbox.wire"),
            "worker.transport.failures",
        ),
        outside=("httpx", "lightkube", "websockets", "yaml"),
    ),
    "sandbox.image": Room(),
    "worker.errors": Room(),
    # Two packages that are as pure as `re`, no I/O, no clock: one finds fifty words at once, one
    # reads Markdown.
    "worker.core": Room(("worker.errors",), ("ahocorasick_rs", "markdown_it")),
    "worker.tools.arguments": Room(PURE, ("pydantic",)),
    "worker.health": Room(),
    "worker.log": Room(PURE),
    "worker.settings": Room(PURE, ("pydantic", "yaml")),
    "worker.settings.playbook": Room(
        (
            *(*PURE, "worker.settings.base", "worker.settings.context", "worker.settings.loop"),
            *("worker.settings.problems", "worker.settings.validation"),
            "worker.settings.yaml_text",
        ),
        ("pydantic",),
    ),
    # Around the parts of a job: the Protocols that it decorates, and no adapter.
    "worker.telemetry": Room(
        (
            *(*PURE, "worker.turns.parts", "worker.models.wrapper", "worker.sessions.objects"),
            *("sandbox.base", "worker.transport.urllib3_connections"),
        ),
        ("opentelemetry", "prometheus_client", "requests"),
    ),
    "worker.transport": Room(outside=("httpcore", "httpx", "requests", "urllib3")),
    "worker.gitlab.client": Room((*PURE, "worker.transport"), ("gitlab", "requests", "urllib3")),
    # The rooms of one level: never each other, so the read token and the write token never meet.
    "worker.webhook": Room(
        (*FLOOR, "worker.transport"),
        ("anyio", "httpx", "joserfc", "pydantic", "starlette", "uvicorn"),
    ),
    # Google's and Amazon's own packages: who they take for the default account is theirs to say.
    "worker.models": Room((*FLOOR, "worker.transport"), ("botocore", "google", "httpx")),
    "worker.tools": Room((*FLOOR, "sandbox.base", "sandbox.tools"), ("pydantic",)),
    "worker.sources": Room(
        (*FLOOR, "worker.gitlab.client", "worker.transport"),
        ("gitlab", "httpx", "pydantic", "requests"),
    ),
    "worker.forge": Room(
        (*PURE, "worker.gitlab.client"), ("gitlab", "jinja2", "markdown_it", "requests")
    ),
    # A stored archive is read by what unpacks it: one reader of what a sandbox has made.
    "worker.pages": Room(
        (
            *(*PURE, "worker.settings.pages", "sandbox.image"),
            *("worker.jobs.verdict_days", "worker.jobs.precision"),
            # Who signs in is told by GitLab's signature, as is a CI job that asks.
            *("worker.webhook.id_tokens", "worker.transport"),
        ),
        ("anyio", "httpx", "jinja2", "markdown_it", "markupsafe", "pydantic", "starlette"),
    ),
    "worker.sessions": Room(
        (*FLOOR, "worker.transport"),
        ("boto3", "botocore", "mypy_boto3_s3", "redis", "urllib3"),
    ),
    # One turn of a session: it knows the ports and the note's pure text, no adapter.
    "worker.turns": Room(
        (
            *(*PURE, "worker.log", "worker.settings.playbook", "worker.queue.journal"),
            *("worker.queue.leases", "worker.forge.defence", "worker.answer.note"),
            *("sandbox.base", "sandbox.background"),
        )
    ),
    # What each kind of trigger asks for.
    "worker.jobs": Room(
        (
            *(
                *PURE,
                "worker.turns",
                "worker.log",
                "worker.settings.playbook",
                "worker.queue.leases",
            ),
            *("worker.forge.defence", "worker.jobs.retention"),
        )
    ),
    # A trigger from the answer 202 to its end, through crashes of workers and brokers.
    # A refused login is told by the errors of the brokers' own libraries: kombu has none for it.
    "worker.queue": Room(
        (*PURE, "worker.turns", "worker.jobs", "worker.log", "worker.transport"),
        ("amqp", "celery", "kombu", "redis"),
    ),
    "worker.maintenance": Room(
        (
            *PURE,
            "worker.turns",
            "worker.jobs.pipeline",
            "worker.queue.journal",
            "worker.queue.leases",
            "worker.queue.project_slots",
            "worker.jobs.verdict_days",
        )
    ),
    "worker.app": Room((*SERVICE, "worker.queue"), ("celery",)),
    # The one place that names concrete adapters.
    "worker.wiring": Room(
        (
            *(*SERVICE, "worker.app", "worker.settings.playbook", "worker.queue", "sandbox"),
            *("worker.doctor.gitlab", "worker.doctor.idle_settings"),
            *("worker.jobs.repair", "worker.jobs.verdict_days"),
            "worker.transport",
            *("worker.forge", "worker.models", "worker.pages", "worker.sessions"),
            *("worker.sources", "worker.telemetry", "worker.tools", "worker.webhook"),
        ),
        ("celery", "starlette"),
    ),
    # The doctor looks at all parts as it is given them; it asks GitLab by itself, with any token.
    "worker.doctor": Room(
        (
            *(*PURE, "worker.settings", "worker.settings.playbook", "worker.gitlab.client"),
            *("worker.models.discovery", "worker.transport"),
            *("sandbox.base", "sandbox.about", "sandbox.spec"),
        ),
        ("httpx",),
    ),
    "worker.cli.doctor": Room(
        (*COMMANDS, "worker.cli.stdout", "worker.doctor", "sandbox"), ("click", "rich")
    ),
    "worker.cli.eval": Room((*COMMANDS, "worker.cli", "worker.lab"), ("click", "rich")),
    "worker.cli.image": Room(("worker.errors", "sandbox"), ("click",)),
    "worker.cli.embedded": Room((*COMMANDS, "worker.cli"), ("uvicorn",)),
    "worker.cli.replay": Room(
        (*COMMANDS, "worker.cli", "worker.lab", "worker.settings.playbook"), ("click", "rich")
    ),
    "worker.cli.report": Room((*COMMANDS, "worker.cli", "worker.lab"), ("click", "rich")),
    "worker.cli.models": Room((*COMMANDS, "worker.cli", "worker.models"), ("click",)),
    "worker.cli": Room(COMMANDS, ("click", "rich")),
    "worker.cli.demo": Room(
        (*COMMANDS, "worker.cli", "worker.demo", "worker.lab"), ("click", "rich")
    ),
    "worker.lab": Room((*PURE, "worker.demo", "worker.settings"), ("pydantic", "yaml")),
    "worker.lab.replaying": Room(
        (*PURE, "worker.lab", "worker.turns", "worker.settings.playbook", "sandbox.background"),
    ),
    "worker.lab.recording": Room(
        (*PURE, "worker.lab", "worker.gitlab.read.api", "worker.gitlab.read.merge_request"),
        ("yaml",),
    ),
    "worker.demo": Room(PURE, ("httpx", "markdown_it", "starlette", "uvicorn")),
}

IMPURE = {
    *("asyncio", "concurrent", "ctypes", "fcntl", "glob", "http", "importlib", "io", "logging"),
    *("mmap", "multiprocessing", "os", "pathlib", "queue", "random", "sched", "secrets", "select"),
    *("selectors", "shutil", "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess"),
    *("sys", "tempfile", "threading", "time", "uuid"),
}
"""What `core` may not import even of the standard library: it has no I/O, clock or chance."""


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
    if top in ("worker", "sandbox"):
        return inside(target, ROOMS) == own or inside(target, ROOMS[own].house) is not None
    if own == "worker.core" and top in IMPURE:
        return False
    return top in sys.stdlib_module_names or top in ROOMS[own].outside


def cycles(modules: Iterable[Module]) -> list[str]:
    """The imports that stand in a cycle, as "a imports b"."""
    by_name = {module.name: module for module in modules}
    edges = {
        (name, target)
        for name, module in by_name.items()
        for _, target in imports(module, by_name)
        if target in by_name and target != name
    }
    while ends := {
        (name, target)
        for name, target in edges
        if target not in {start for start, _ in edges} or name not in {end for _, end in edges}
    }:
        edges -= ends
    return sorted(f"{name} imports {target}" for name, target in edges)


def names() -> set[str]:
    """Every module of the product."""
    return {module.name for module in product()}


def test_every_room_imports_only_what_its_row_allows() -> None:
    assert none(violations(product(), names()))


def test_no_module_imports_itself_through_others() -> None:
    assert none(cycles(product()), "take one of these imports out of the circle")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("worker/core/planted.py", "import time"),
        ("worker/core/planted.py", "import httpx"),
        ("worker/core/planted.py", "from worker.tools import toolbox"),
        ("worker/core/planted.py", "def late():\n    from os import environ"),
        ("worker/sources/planted.py", "from worker.forge import note"),
        ("worker/sources/planted.py", "from ..forge import note"),
        ("worker/forge/planted.py", "import worker.gitlab.read.session_reader"),
        ("worker/tools/planted.py", "from worker import wiring"),
        ("worker/tools/planted.py", "from worker.settings import Settings"),
        ("worker/tools/planted.py", "from sandbox import docker"),
        ("worker/turns/turn.py", "from worker.forge import gitlab"),
        ("worker/turns/turn.py", "from worker.wiring import stores"),
        ("worker/telemetry/planted.py", "from worker.models import client"),
        ("worker/wiring/receiver.py", "from worker.demo import story"),
        ("worker/cli/serve.py", "from worker.demo import story"),
        ("worker/demo/planted.py", "from worker.sources import reader"),
        ("sandbox/planted.py", "from worker.errors import SandpiperError"),
        ("sandbox/image/planted.py", "import docker"),
        ("worker/novelty.py", "import json"),
    ],
)
def test_a_planted_violation_is_found(path: str, source: str) -> None:
    planted = parse(path, source)
    known = {
        "worker.tools.toolbox",
        "worker.answer.note.note",
        "worker.gitlab.write.writer",
        "worker.wiring",
    }
    known |= {"worker.lab.story", "worker.gitlab.read.session_reader", "sandbox.docker"}
    line = 1 + source.count("\n")
    assert [each.split(": ")[0] for each in violations([planted], known)] == [f"{path}:{line}"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "worker/core/planted.py",
            "import json\nfrom worker.core import events",
        ),
        ("worker/sources/planted.py", "from worker.sources import reader"),
        ("worker/turns/turn.py", "from worker.answer.note import note"),
        ("worker/cli/demo.py", "from worker.demo import story"),
        ("worker/tools/planted.py", "from sandbox.base import Sandbox"),
    ],
)
def test_an_allowed_import_is_not_found(path: str, source: str) -> None:
    known = {"worker.answer.note.note", "worker.lab.story", "worker.gitlab.read.session_reader"}
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
