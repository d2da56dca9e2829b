"""Does the failure preview hold the lines that explain the failure?

Real failed logs with marked lines are not part of the repository: `LOGS=folder make bench` names
the folder that holds them with their scorer, `score.py`.
"""

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.simulators.gitlab import GitLabSim, Scene, make_failing_merge_request
from worker.conversation.context import Subject
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.logs import trace
from worker.logs.excerpt import preview_trace
from worker.safety.redact import Redactor

BASELINES = ("tail4k", "grep-last4k", "clean+hybrid-grep+tail")
SPEED_MB = 64
"""Megabytes of the log that the pass is timed on."""

STREAM_MB = 220
"""Megabytes of the log that is read from a GitLab."""


def main() -> None:
    """Print the scorer's tables of the preview and of its baselines, and what a pass costs."""
    _speed()
    _stream()
    folder = os.environ.get("LOGS", "")
    if not folder or not (Path(folder) / "score.py").is_file():
        print("preview: no marked logs here (LOGS=folder with score.py); its quality is not scored")
        return
    _real_speed(Path(folder))
    score = [sys.executable, str(Path(folder) / "score.py")]
    print("preview: baselines, at 4,096 bytes")
    for name in BASELINES:
        _run(score, "--builtin", name, "--quiet")
    print("preview: ours")
    _run(score, "--py", f"{__file__}:shown", "--by", "ecosystem,source,size")
    print("preview: inside GitLab's envelope with timestamps")
    _run(score, "--py", f"{__file__}:shown", "--envelope", "gitlab-ts", "--quiet")
    print("preview: with the last green log, where there is one")
    _run(score, "--py", f"{__file__}:shown_beside_green", "--pass-meta", "--only", "cidiff")


def shown(path: str) -> str:
    """The preview of a log, as the scorer asks for it."""
    return preview_trace([Path(path).read_bytes()])


def shown_beside_green(path: str, meta: dict[str, str | None]) -> str:
    """The same with the log of the last run that passed, if the case has one."""
    green = meta["pass_log"]
    passed = [Path(green).read_bytes()] if green else None
    return preview_trace([Path(path).read_bytes()], green=passed)


def _real_speed(folder: Path) -> None:
    """The whole preview of real logs, in CPU time: one stream of them all, and large ones alone."""
    texts = [_unpacked(path) for path in sorted((folder / "dev").glob("*/log.txt*"))]
    large = [text for text in texts if len(text) >= trace.PIECE]
    print("preview: MB/s on real logs, as one stream / each of 1 MiB and more alone")
    stream = b"".join(texts)[: SPEED_MB * 1_000_000]
    spent = sum(_seconds(text) for text in large)
    print(
        f"  {len(stream) / 1e6 / _seconds(stream):8.1f} {sum(map(len, large)) / 1e6 / spent:8.1f}"
    )


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _seconds(text: bytes) -> float:
    """CPU seconds of the preview, the better of two runs."""
    return min(_spent(text), _spent(text))


def _spent(text: bytes) -> float:
    started = time.process_time()
    preview_trace(text[at : at + trace.PIECE] for at in range(0, len(text), trace.PIECE))
    return time.process_time() - started


def _run(score: list[str], *options: str) -> None:
    root = str(Path(__file__).parents[2])
    sys.stdout.flush()
    subprocess.run([*score, *options], check=True, env={**os.environ, "PYTHONPATH": root})


def _speed() -> None:
    piece = "".join(_line(number) for number in range(14_000)).encode()
    count = SPEED_MB * 1_000_000 // len(piece)
    started = time.process_time()
    preview_trace(piece for _ in range(count))
    ours = time.process_time() - started
    started = time.process_time()
    for _ in range(count):
        piece.decode("utf-8", "replace").split("\n")
    floor = time.process_time() - started
    size = count * len(piece) / 1e6
    print("preview: MB/s of cleaning and one pass / of decoding and splitting alone / ratio")
    print(f"  {size / ours:.0f} / {size / floor:.0f} / {ours / floor:.1f}")


def _stream() -> None:
    """A large log from a GitLab: fetched, cleaned, redacted, kept and previewed in one pass."""
    with GitLabSim() as sim:
        scene = make_failing_merge_request(sim)
        piece = "".join(_line(number) for number in range(14_000)).encode()
        scene.job.trace = piece * (STREAM_MB * 1_000_000 // len(piece)) + b"widget.c:7: error: no\n"
        client = ReadClient(sim.url, scene.read_token)
        path = f"/projects/{scene.project.id}/jobs/{scene.job.id}/trace"
        floor = _timed(lambda: sum(map(len, client.stream(path, "the log", 1 << 40))))
        reader = Reader.open(
            client, _subject(sim, scene), Redactor(["a-secret-of-the-worker"]).remove_secrets
        )
        before = _resident()
        with _peak() as peak:
            ours = _timed(lambda: reader.logs.read_log(scene.job.id).make_document())
        shown = reader.logs.read_log(scene.job.id).preview(4096)
        assert "widget.c:7: error: no" in shown
        size = len(scene.job.trace) / 1e6
    print("preview: a log from GitLab to the worker: MB / s / MB/s / fetching alone, s / RSS + MB")
    print(f"  {size:.0f} / {ours:.1f} / {size / ours:.0f} / {floor:.1f} / {peak[0] - before}")


def _subject(sim: GitLabSim, scene: Scene) -> Subject:
    return Subject(
        gitlab_url=sim.url,
        project_id=scene.project.id,
        project=scene.project.path,
        mr_iid=scene.mr.iid,
        pipeline_project_id=scene.project.id,
        pipeline_id=scene.pipeline.id,
        sha=scene.pipeline.sha,
        web_url=scene.mr.web_url,
    )


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _resident() -> int:
    """Megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


@contextmanager
def _peak() -> Iterator[list[int]]:
    """The most resident megabytes of this process, looked at fifty times a second."""
    most, over = [_resident()], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[0] = max(most[0], _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def _line(number: int) -> str:
    match number % 40:
        case 7:
            return f"WARNING: part_{number % 97} of group {number * 7919 % 1009} took {number}\n"
        case 23:
            return f"\x1b[31mERROR\x1b[0m worker-{number % 13}: request {number:x} refused\n"
        case _:
            name = f"{number * 2654435761 % 2**32:x}"
            return f"[{number:6}/14000] Compiling src/module_{number % 701}/{name}.c -O2\n"
