"""Sandboxes and their engine that die under a run: what was lost is said, and nothing stays."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from sandbox.engine import get_engine_address
from tests.contract.test_sandbox_forgery import attack
from tests.engines import Engine, running_engine
from tests.flow import crew
from tests.flow.product import DOCKER, Product, containers
from tests.flow.proxy import Proxy
from worker.lab.script import Asked, Call, Say, Scripted

pytestmark = pytest.mark.usefixtures("sandbox_image")

AWAY = 1.0
"""Seconds for which the engine answers nobody."""

HUNGRY = "x=$(head -c 1G /dev/zero | tr '\\0' a); echo fed"


def test_a_command_that_eats_all_memory_is_killed_and_the_model_goes_on(
    tmp_path: Path, redis_url: str
) -> None:
    seen: list[str] = []

    def told(asked: Asked) -> Call:
        seen.append(asked.results[-1].content)
        return Call([("sandbox_exec", {"command": "cat /tmp/data/kept"})])

    def last(asked: Asked) -> Say:
        kept = json.loads(asked.results[-1].content)["stdout"].strip()
        return Say(f"## Verdict\nunknown\n\n## Cause\nThe file says {kept}.\n")

    command = f"echo before > /tmp/data/kept; {HUNGRY}"
    chosen = Scripted([Call([("sandbox_exec", {"command": command})]), told, last])
    with crew.hasty(tmp_path, chosen, redis_url, "sandbox: {memory: 96m}\n", driver=DOCKER) as made:
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    assert "for want of memory" in seen[0]
    (note,) = made.notes()
    assert "The file says before." in note.body
    crew.assert_nothing_left(made, crew.folder_store(made))


@pytest.mark.attack("sandbox")
def test_a_command_that_attacks_its_runner_costs_the_run_nothing(
    tmp_path: Path, redis_url: str, sandbox_image: str
) -> None:
    tries = [Call([("sandbox_exec", {"command": f"{attack(how)}"})]) for how in ("kill", "trace")]
    chosen = Scripted([*tries, Say("## Verdict\nunknown\n\n## Cause\nNobody knows.\n")])
    image = f"sandbox: {{image: {sandbox_image}}}\n"
    with crew.hasty(tmp_path, chosen, redis_url, image, driver=DOCKER) as made:
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    (note,) = made.notes()
    assert "Nobody knows." in note.body
    assert "lost" not in note.body
    crew.assert_nothing_left(made, crew.folder_store(made))


def kill_containers(made: Product) -> None:
    """End the containers of all sessions, as an engine that restarts does."""
    with closing(docker.from_env()) as client:
        for key in crew.folder_store(made).list_sessions():
            for each in containers(key.session_id):
                client.api.kill(each)


def test_sandboxes_that_die_again_and_again_end_the_run_and_the_note_says_so(
    tmp_path: Path, redis_url: str
) -> None:
    def strike(asked: Asked) -> Call:
        kill_containers(made)
        return Call([("sandbox_exec", {"command": f"echo {len(asked.results)}"})])

    chosen = Scripted([Call([("sandbox_exec", {"command": "true"})]), *[strike] * 8])
    with crew.hasty(tmp_path, chosen, redis_url, driver=DOCKER) as made:
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    (note,) = made.notes()
    assert "The sandbox was lost: " in note.body
    assert "files could not be stored" in note.body
    crew.assert_nothing_left(made, crew.folder_store(made))


def test_files_that_could_not_be_kept_are_named_in_the_note(
    tmp_path: Path, redis_url: str, sandbox_image: str
) -> None:
    large = Call([("sandbox_exec", {"command": "truncate -s 300M /tmp/data/core.4711"})])
    chosen = Scripted([large, Say("## Verdict\nunknown\n\n## Cause\nIt dumped core.\n")])
    image = f"sandbox: {{image: {sandbox_image}}}\n"
    with crew.hasty(tmp_path, chosen, redis_url, image, driver=DOCKER) as made:
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    (note,) = made.notes()
    assert "It dumped core." in note.body
    assert "of the sandbox's files some could not be stored: 1 left out" in note.body
    assert "'data/core.4711': 314,572,800 bytes, over" in note.body.replace("\\", "")


LOG = "/tmp/data/unit-tests.log"


def looks_again_after(restarts: Callable[[Asked], Call]) -> Scripted:
    """The engine restarts under a command; then the log that was fetched before is counted."""
    request = {"source": "gitlab_get_job_log", "arguments": {"job_id": 500003}, "path": LOG}
    fetch = Call([("fetch_to_sandbox", request)])
    return Scripted([fetch, restarts, Call([("sandbox_exec", {"command": COUNT})]), crew.conclude])


COUNT = f"wc -l < {LOG}"


def check_gone_on(made: Product) -> None:
    """The run went on in another sandbox, which had the document again."""
    (note,) = made.notes()
    (counted,) = re.findall(r"The command ran (\d+) times", note.body)
    assert int(counted) > 1000
    assert "A new one has started, and it is empty." in str(made.model.requests[-1])
    assert "the sandbox died while this ran" in str(made.model.requests[-1])
    crew.assert_nothing_left(made, crew.folder_store(made))


@pytest.fixture
def engine() -> Iterator[Proxy]:
    """What stands between the worker and the engine; the test itself talks to the engine."""
    path = get_engine_address(None).removeprefix("unix://")
    with Proxy(path) as proxy:
        yield proxy


def test_a_run_goes_on_in_another_sandbox_when_its_engine_restarts(
    tmp_path: Path, redis_url: str, engine: Proxy
) -> None:
    """A restart as its clients see it: the containers die, and for a while nobody answers."""

    def restarts(asked: Asked) -> Call:
        kill_containers(made)
        engine.away(AWAY)
        return Call([("sandbox_exec", {"command": crew.LINES})])

    with crew.hasty(tmp_path, looks_again_after(restarts), redis_url, driver=DOCKER) as made:
        made.env["DOCKER_HOST"] = f"tcp://127.0.0.1:{engine.port}"
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    check_gone_on(made)


@pytest.fixture
def own_engine(sandbox_image: str) -> Iterator[Engine]:
    """An engine of the test's own, with the sandbox's image."""
    with running_engine() as engine:
        engine.take_image(sandbox_image)
        yield engine


def test_an_engine_that_really_restarts_in_the_middle_of_a_run_costs_a_sandbox_only(
    tmp_path: Path, redis_url: str, own_engine: Engine, sandbox_image: str
) -> None:
    def restarts(asked: Asked) -> Call:
        own_engine.restart()
        return Call([("sandbox_exec", {"command": crew.LINES})])

    image = f"sandbox: {{image: {sandbox_image}}}\n"
    with crew.hasty(tmp_path, looks_again_after(restarts), redis_url, image, driver=DOCKER) as made:
        made.env["DOCKER_HOST"] = own_engine.url
        crew.fails(made)
        with crew.at_work(made) as worker:
            worker.until(lambda: crew.ended(crew.folder_store(made)), "it did not end")
    check_gone_on(made)
    with closing(own_engine.client()) as client:
        assert client.containers.list() == []
