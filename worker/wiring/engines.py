"""What sandboxes run in."""

import atexit

from sandbox import bubblewrap, docker
from sandbox.base import Driver, SandboxUnavailable
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.docker import DockerDriver
from sandbox.soon import POOL_LIFETIME, Pool
from sandbox.spec import ContainerSpec
from worker.conversation import CLAIM_MARGIN
from worker.errors import ConfigError, SandpiperError
from worker.settings import Settings


def driver(settings: Settings) -> DockerDriver | BubblewrapDriver:
    """What starts sandboxes. Raises ConfigError."""
    chosen = settings.sandbox
    try:
        spec = ContainerSpec(
            image=chosen.image,
            runtime=chosen.runtime,
            memory=chosen.memory,
            cpus=chosen.cpus,
            pids=chosen.pids,
            shared_limits=chosen.shared_limits,
            disk=chosen.disk,
            preview=settings.limits.preview_bytes,
        )
    except ValueError as error:
        raise ConfigError(f"sandbox: {error}") from error
    return BubblewrapDriver(spec) if chosen.driver == "bubblewrap" else DockerDriver(spec)


def sandboxes(settings: Settings) -> Driver:
    """The driver, behind a pool if one is wanted; what waits in it ends with this process."""
    chosen = driver(settings)
    if not settings.sandbox.pool:
        return chosen
    pool = Pool(chosen, settings.sandbox.pool)
    atexit.register(pool.close)
    pool.fill()
    return pool


def reap(settings: Settings) -> list[str]:
    """Remove sandboxes that no run can own any more; their sessions. Raises SandpiperError."""
    age = POOL_LIFETIME + 2 * (settings.limits.wall_clock + CLAIM_MARGIN)
    try:
        if settings.sandbox.driver == "bubblewrap":
            return bubblewrap.reap(age)
        return docker.reap(None, age)
    except SandboxUnavailable as error:
        raise SandpiperError(str(error)) from error
