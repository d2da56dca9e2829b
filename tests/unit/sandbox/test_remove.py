"""A container goes also where the engine needs more than one attempt."""

from typing import Any, cast

import requests
from docker.errors import APIError

from sandbox.docker import DockerContainer, make_name
from sandbox.spec import ContainerSpec, choose_users


class Engine:
    """Answers removals with these statuses, then with success."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.asked, self.closed = list(statuses), 0, False

    def inspect_container(self, container: str) -> dict[str, str]:
        return {"Name": f"/{make_name('session', 'owner')}"}

    def remove_container(self, container: str, *, force: bool, v: bool) -> None:
        self.asked += 1
        if self.statuses:
            response = requests.Response()
            response.status_code = self.statuses.pop(0)
            raise APIError("no", response)

    def close(self) -> None:
        self.closed = True


def removed_by(engine: Engine) -> int:
    """After how many attempts a container was given up or gone."""
    remove(engine, "owner")
    return engine.asked


def remove(engine: Engine, owner: str) -> bool:
    container = DockerContainer(cast(Any, engine), "c1", ContainerSpec(), choose_users(), owner)
    settled = container.remove()
    assert engine.closed
    return settled


def test_a_container_that_the_engine_cannot_stop_yet_is_removed_later() -> None:
    assert removed_by(Engine(500, 500)) == 3


def test_a_container_that_is_gone_or_going_is_not_asked_for_again() -> None:
    assert removed_by(Engine(404)) == 1
    assert removed_by(Engine(409)) == 1


def test_a_container_that_another_worker_has_is_left_to_it() -> None:
    engine = Engine()
    assert remove(engine, "an earlier owner")
    assert engine.asked == 0
