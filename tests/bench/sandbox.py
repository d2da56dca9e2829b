"""The sandbox's costs, each beside what one would do by hand with the docker command.

Needs the docker command besides the engine. Figures are medians; the floors run in the same minute.
"""

import os
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from shlex import quote, split
from statistics import median

from sandbox import build
from sandbox.background import Pool
from sandbox.docker import DockerDriver, DockerSandbox
from sandbox.framed import FramedSandbox
from sandbox.spec import ContainerSpec
from tests.contract.sandbox_relay import relay

MEGABYTES = 100
_PAUSE = 0.3
SHAPES = ((100, "files of 1 MB"), (5000, "files of 20 KB"))
FLOOR = split(
    "docker run --detach --init --network none --read-only --cap-drop ALL --pids-limit 256 "
    "--memory 2g --memory-swap 2g --cpus 1 --security-opt no-new-privileges --log-driver none "
    "--tmpfs /tmp:rw,exec,mode=1777,size=1800m --user 10002:10002 --entrypoint sleep"
)

FILL = """
import os, sys
count, size = map(int, sys.argv[1:])
text = open('/tmp/sample', 'rb').read() * 3
for number in range(count):
    folder = f'/tmp/data/{number // 100}'
    os.makedirs(folder, exist_ok=True)
    start = number * size % (4 << 20)
    with open(f'{folder}/{number}.log', 'wb') as file:
        file.write(text[start : start + size])
"""


def main() -> None:
    """Print each figure, its floor and their ratio; the aim stands behind."""
    image = build.ensure_image(say=lambda _: None)
    driver = DockerDriver(ContainerSpec(image=image))
    print("sandbox: ours / floor / ratio (aim)")
    cold = _starts(driver, image)
    _pooled(driver, cold)
    with driver.start("bench") as sandbox:
        _commands(sandbox)
        _gigabyte(ContainerSpec(image=image))
        for count, what in SHAPES:
            _archive(driver, sandbox, count, what)


def _row(what: str, ours: float, floor: float, aim: float) -> None:
    numbers = f"{ours * 1000:9.1f} ms / {floor * 1000:8.1f} ms / {ours / floor:5.2f}"
    print(f"  {what:44s} {numbers} (≤ {aim})")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _docker(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout


# ------------------------------------------------------------------------------- starts, commands


def _starts(driver: DockerDriver, image: str) -> float:
    """Each in turn, as the machine's mood changes. Returns a cold start up to its first answer."""
    ours, floor, cold = [], [], []
    for _ in range(9):
        began = time.perf_counter()
        with driver.start("bench") as sandbox:
            ours.append(time.perf_counter() - began)
            _true(sandbox)
            cold.append(time.perf_counter() - began)
        began = time.perf_counter()
        made = _docker(*FLOOR, image, "infinity").strip()
        floor.append(time.perf_counter() - began)
        _docker("docker", "rm", "--force", made)
    _row("start / docker run", median(ours), median(floor), 1.05)
    return median(cold)


def _pooled(driver: DockerDriver, cold: float) -> None:
    taken = []
    with closing(Pool(driver, 1)) as pool:
        for _ in range(5):
            pool.fill()
            while not pool.count_ready():
                time.sleep(0.01)
            time.sleep(0.2)
            began = time.perf_counter()
            sandbox = pool.start("bench")
            _true(sandbox)
            taken.append(time.perf_counter() - began)
            sandbox.close()
    _row("first command from the pool / cold start", median(taken), cold, 0.05)


def _true(sandbox: FramedSandbox) -> None:
    assert sandbox.exec("true", timeout=20, number=1).exit_code == 0


def _commands(sandbox: DockerSandbox) -> None:
    execute = ["docker", "exec", "--user", "10001", sandbox.container_id, "bash", "-c"]
    megabyte = "yes 'a line of output' | head -c 1000000"
    for what, command, aim in (
        ("command / docker exec", "true", 0.1),
        ("command with 1 MB of output / docker exec", megabyte, 0.5),
    ):
        ours = [_run_after_a_pause(sandbox, command) for _ in range(25)]
        floor = [_timed(partial(_docker, *execute, command)) for _ in range(15)]
        _row(what, median(ours), median(floor), aim)
        at_once = [_timed(partial(_run, sandbox, command)) for _ in range(15)]
        _row("  at once after another one", median(at_once), median(floor), 0.6)


def _run_after_a_pause(sandbox: DockerSandbox, command: str) -> float:
    """As after a model's answer: by then, the engine has said what the last command has left."""
    time.sleep(_PAUSE)
    return _timed(partial(_run, sandbox, command))


def _run(sandbox: DockerSandbox, command: str) -> None:
    assert sandbox.exec(command, timeout=20, number=1).exit_code == 0


def _gigabyte(spec: ContainerSpec) -> None:
    """What crosses from the engine is counted on the way, by a relay."""
    moved: list[int] = []
    with relay(count=moved.append) as port:
        driver = DockerDriver(spec, f"tcp://127.0.0.1:{port}")
        with driver.start("bench") as sandbox:
            _true(sandbox)
            moved.clear()
            before = _memory()
            with _peak() as peak:
                done = sandbox.exec("yes | head -c 1G", timeout=60, number=2)
            crossed = sum(moved)
    assert done.stdout.size == 1 << 30
    print(f"  1 GB of output: {crossed / 1024:.1f} KB moved (< 64), ", end="")
    print(f"{max(peak()) - before:.1f} MB of memory (< 8)")


# ------------------------------------------------------------------------------------- archives


def _archive(driver: DockerDriver, sandbox: DockerSandbox, count: int, what: str) -> None:
    """Save and restore 100 MB of log-like text, beside tar and the same compressor in a pipe."""
    _fill(sandbox, count)
    saves, restores, floors, grown = [], [], [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "saved.tar.gz")
        for _ in range(4):
            before = _memory()
            with driver.start("bench") as other, _peak() as peak:
                other.open_session()
                saves.append(_timed(partial(_save, sandbox, kept)))
                restores.append(_timed(partial(_restore, other, kept)))
            grown = max(grown, max(peak()) - before)
            floors.append(_floor(driver, sandbox, Path(folder, "floor.tar.gz")))
        packed = kept.stat().st_size
    save, restore = min(saves), min(restores)
    _row(f"save {MEGABYTES} MB, {count} {what}", save, min(f[0] for f in floors), 1.2)
    _row(f"restore {MEGABYTES} MB, {count} {what}", restore, min(f[1] for f in floors), 1.2)
    _row("  both together", save + restore, min(sum(f) for f in floors), 1.2)
    print(f"    {packed / 1e6:.0f} MB packed, {grown:.1f} MB of memory")


def _fill(sandbox: DockerSandbox, count: int) -> None:
    """Lines as jobs print them: a time, and words of a vocabulary."""
    chance = random.Random(1)
    letters = "abcdefghijklmnop"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 9))) for _ in range(3000)]
    text = b""
    while len(text) < 4 << 20:
        stamp = f"2026-11-21T10:{chance.randrange(60):02}:{chance.randrange(60):02}.{len(text)}Z "
        text += (stamp + " ".join(chance.choices(words, k=10)) + "\n").encode()
    sandbox.put("/tmp/sample", [text])
    argv = f"{count} {MEGABYTES * 1_000_000 // count}"
    done = sandbox.exec(f"rm -rf data/*; python3 -c {quote(FILL)} {argv}", timeout=100, number=4)
    assert done.exit_code == 0, done.stderr.preview


def _save(sandbox: FramedSandbox, kept: Path) -> None:
    with kept.open("wb") as file:
        for chunk in sandbox.export():
            file.write(chunk)


def _restore(sandbox: FramedSandbox, kept: Path) -> None:
    with kept.open("rb") as file:
        sandbox.restore(iter(lambda: file.read(1 << 16), b""))


def _floor(driver: DockerDriver, sandbox: DockerSandbox, kept: Path) -> tuple[float, float]:
    """Seconds of a plain pipe out of the container, and of one into another."""
    execute = ["docker", "exec", "--interactive", "--user", "10001"]
    pack, unpack = (
        "tar -c -C /tmp _out data | igzip -1 -n",
        "mkdir /tmp/floor && igzip -d | tar -x -C /tmp/floor",
    )
    with kept.open("wb") as file:
        save = _timed(
            lambda: subprocess.run(
                [*execute, sandbox.container_id, "sh", "-c", pack], stdout=file, check=True
            )
        )
    with driver.start("bench") as other, kept.open("rb") as file:
        restore = _timed(
            lambda: subprocess.run(
                [*execute, other.container_id, "sh", "-c", unpack], stdin=file, check=True
            )
        )
    return save, restore


# ------------------------------------------------------------------------------------ measuring


def _memory() -> float:
    """Resident megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


@contextmanager
def _peak() -> Iterator[Callable[[], list[float]]]:
    """The resident memory while the block runs, sampled in a process of its own."""
    program = (
        "import os, sys, time\n"
        "while os.getppid() == int(sys.argv[1]):\n"
        "    print(open(f'/proc/{sys.argv[1]}/statm').read().split()[1], flush=True)\n"
        "    time.sleep(0.005)\n"
    )
    with tempfile.TemporaryFile("w+") as file:
        sampler = subprocess.Popen(["python3", "-c", program, str(os.getpid())], stdout=file)
        found: list[float] = [_memory()]
        try:
            yield lambda: found
        finally:
            sampler.kill()
            sampler.wait()
            file.seek(0)
            lines = [line for line in file.read().splitlines() if line.isdigit()]
            found += [int(line) * resource.getpagesize() / (1 << 20) for line in lines]


if __name__ == "__main__":
    main()
