"""What a Docker engine says of itself."""

from contextlib import closing
from dataclasses import dataclass

from sandbox.base import SandboxUnavailable
from sandbox.engine import address, engine_errors, open_engine

_WORD = 60


@dataclass(frozen=True, slots=True)
class Engine:
    """Its version, where it is, the runtimes it has, and whether it is rootless."""

    version: str
    address: str
    runtimes: tuple[str, ...]
    rootless: bool
    cgroups: str


def about(base_url: str | None = None) -> Engine:
    """The engine at `base_url`, or Docker's usual choice. Raises SandboxUnavailable."""
    with (
        closing(open_engine(base_url)) as api,
        engine_errors(SandboxUnavailable, "asking the engine what it is"),
    ):
        info = api.info()
        options = [str(each) for each in info.get("SecurityOptions") or ()]
        return Engine(
            version=str(info.get("ServerVersion", "unknown"))[:_WORD],
            address=address(base_url),
            runtimes=tuple(sorted(map(str, info.get("Runtimes") or {})))[:20],
            rootless=any("rootless" in each for each in options),
            cgroups=str(info.get("CgroupVersion", "unknown"))[:_WORD],
        )
