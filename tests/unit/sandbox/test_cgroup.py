"""Control groups, over trees that look like the kernel's."""

from pathlib import Path

import pytest

from sandbox.bubblewrap_options import ControlGroup, make_group, plan_limits
from sandbox.spec import ContainerSpec

SPEC = ContainerSpec(memory="1g", cpus=1.5, pids=100)


def tree(root: Path, version: int) -> tuple[Path, Path]:
    """A mounted tree and the file that names this process's own group."""
    own = root / "own"
    mount = root / "cgroup"
    if version == 2:
        (mount / "user.slice/job.scope").mkdir(parents=True)
        (mount / "cgroup.controllers").write_text("cpu memory pids")
        own.write_text("0::/user.slice/job.scope\n")
    else:
        for controller in ("memory", "pids", "cpu"):
            (mount / controller).mkdir(parents=True)
        own.write_text("3:pids:/x\n")
    return mount, own


@pytest.mark.parametrize("version", [1, 2])
def test_a_tree_without_the_limits_gives_no_group_and_keeps_no_folder(
    tmp_path: Path, version: int
) -> None:
    mount, own = tree(tmp_path, version)
    before = sorted(tmp_path.rglob("*"))
    assert make_group("sandpiper-1", SPEC, mount, own) is None
    assert sorted(tmp_path.rglob("*")) == before


def test_no_tree_gives_no_group(tmp_path: Path) -> None:
    assert make_group("sandpiper-1", SPEC, tmp_path / "none", tmp_path / "own") is None


def test_one_tree_takes_all_limits_beside_our_own_group(tmp_path: Path) -> None:
    mount, own = tree(tmp_path, 2)
    limits = {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "pids.max": "100",
        "cpu.max": "150000 100000",
    }
    assert plan_limits(SPEC, mount, own) == {mount / "user.slice": limits}
    own.write_text("0::/\n")
    assert plan_limits(SPEC, mount, own) == {mount: limits}


def test_a_tree_for_each_controller_takes_its_own_limits(tmp_path: Path) -> None:
    mount, own = tree(tmp_path, 1)
    asked = plan_limits(SPEC, mount, own)
    assert asked[mount / "memory"] == {"memory.limit_in_bytes": str(1 << 30)}
    assert asked[mount / "pids"] == {"pids.max": "100"}
    assert asked[mount / "cpu"]["cpu.cfs_quota_us"] == "150000"
    (mount / "memory/memory.memsw.limit_in_bytes").touch()
    assert "memory.memsw.limit_in_bytes" in plan_limits(SPEC, mount, own)[mount / "memory"]


def test_a_process_is_put_into_every_folder_and_the_folders_go(tmp_path: Path) -> None:
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        folder.mkdir()
    group = ControlGroup(folders)
    group.add(42)
    assert [(folder / "cgroup.procs").read_text() for folder in folders] == ["42", "42"]
    for folder in folders:
        (folder / "cgroup.procs").unlink()
    group.remove()
    group.remove()
    assert not any(folder.exists() for folder in folders)
