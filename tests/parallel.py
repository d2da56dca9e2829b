"""How the suite is spread over processes, by pytest-xdist: `pytest -n 3`.

A group of tests runs in one process, one test after the other. Each file is a group, but of
`tests/flow` each test, since they last seconds and share nothing; and some files share what there
is only once. What lasts long begins first, so that no process is left with it at the end.
"""

import gc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
GROUPS = {
    "deploy/test_image.py": "engine",
    "deploy/test_chart.py": "chart",
    "deploy/test_chart_cluster.py": "chart",
    "deploy/test_chart_pods.py": "chart",
    "deploy/test_chart_settings.py": "chart",
    "flow/test_faults_sandbox.py": "engine",
    "flow/test_doctor.py": "doctor",
    "unit/doctor/test_parts.py": "doctor",
}
"""Builds and restarts keep the machine busy enough one by one; the files on the chart share what
Helm renders; doctors' sandboxes have one name."""
WHOLE = {"law": "law"}
"""Folders whose files share what takes long to make: the syntax trees of the house."""
ORDER = ("flow", "contract", "deploy", "unit", "wire", "law", "attacks")
SERVICES = frozenset({"sandbox_image", "bubblewrap", "redis_url", "rabbit_url", "s3_server"})
"""Fixtures that need what `.ci/with-services` starts, or start a server themselves."""


def worker_number() -> int | None:
    """Which of several test processes this is, from 0; None if it is the only one."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    return int(name.removeprefix("gw")) if name else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--without-services`: leave out what needs a server beside the tests; `--shard`: a part."""
    parser.addoption(
        "--without-services", action="store_true", help="leave out tests that need services"
    )
    parser.addoption("--shard", type=read_shard, help="this part of the tests alone: 1/4 … 4/4")


def read_shard(text: str) -> tuple[int, int]:
    """Read `2/4`: which part, of how many. Raises ValueError."""
    number, _, count = text.partition("/")
    shard = int(number), int(count)
    if not 1 <= shard[0] <= shard[1]:
        raise ValueError(f"--shard {text}: expected a part of a whole, such as 1/4")
    return shard


def pytest_configure() -> None:
    """Collect the tests without the garbage collector: what is made stays until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on the garbage collector looks only at what tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests into the order in which they begin."""
    if config.getoption("--without-services"):
        left_out = [item for item in items if needs_services(item)]
        items[:] = [item for item in items if not needs_services(item)]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: rank(item.path.relative_to(ROOT).as_posix()))
    if shard := config.getoption("--shard"):
        mine = pick_groups([item.nodeid for item in items], *shard)
        left_out = [item for item in items if group_of(item.nodeid) not in mine]
        items[:] = [item for item in items if group_of(item.nodeid) in mine]
        config.hook.pytest_deselected(items=left_out)


def pick_groups(nodeids: Iterable[str], number: int, count: int) -> set[str]:
    """The groups of one part of `count`: like cards they are dealt out, in the tests' order."""
    groups = list(dict.fromkeys(map(group_of, nodeids)))
    return set(groups[number - 1 :: count])


def needs_services(item: pytest.Item) -> bool:
    """Whether a test asks for such a fixture, or is given its name as a parameter."""
    given = getattr(getattr(item, "callspec", None), "params", {}).values()
    names = {*getattr(item, "fixturenames", ()), *(each for each in given if type(each) is str)}
    return not SERVICES.isdisjoint(names)


def rank(path: str) -> int:
    """When a file begins."""
    return -1 if GROUPS.get(path) == "engine" else ORDER.index(path.partition("/")[0])


def group_of(nodeid: str) -> str:
    """The group of the test `tests/FOLDER/FILE::NAME`."""
    path = nodeid.partition("::")[0].removeprefix("tests/")
    folder = path.partition("/")[0]
    alone = nodeid if folder == "flow" else path
    return GROUPS.get(path) or WHOLE.get(folder) or alone


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out group after group."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)
