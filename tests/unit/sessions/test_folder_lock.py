import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from worker.sessions.folder_lock import LOCK, lock_folder

THREADS = 6
ROUNDS = 150


def count(folder: Path) -> None:
    """Count in a file as only one at a time can: what is not locked loses some."""
    counter = folder / "count"
    for _ in range(ROUNDS):
        with lock_folder(folder, 30.0):
            counter.write_text(str(int(counter.read_text()) + 1))


@pytest.mark.slow
def test_a_lock_whose_file_goes_each_time_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    with ThreadPoolExecutor(THREADS) as pool:
        for each in [pool.submit(count, tmp_path) for _ in range(THREADS)]:
            each.result(60)
    assert (tmp_path / "count").read_text() == str(THREADS * ROUNDS)
    assert [each.name for each in tmp_path.iterdir()] == ["count"]


def test_the_file_is_removed_after_an_error_too(tmp_path: Path) -> None:
    with suppress(ValueError), lock_folder(tmp_path, 1.0):
        assert (tmp_path / LOCK).exists()
        raise ValueError
    assert not list(tmp_path.iterdir())


def test_the_file_that_a_dead_process_left_is_taken_over(tmp_path: Path) -> None:
    dying = (
        "import os, sys; from pathlib import Path\n"
        "from worker.sessions.folder_lock import lock_folder\n"
        "with lock_folder(Path(sys.argv[1]), 1.0): os._exit(0)"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", dying, tmp_path], check=True, timeout=30, cwd=root)
    assert (tmp_path / LOCK).exists()
    with lock_folder(tmp_path, 1.0):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_missing_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), lock_folder(tmp_path / "none", 1.0):
        pass
