"""Runs jobs on threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

WORKERS = 8


def run_in_parallel(jobs: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Run the jobs on threads and yield their results in the order of the jobs.

    The first exception in that order is raised; jobs that have not begun are dropped then.
    """
    if len(jobs) == 1:
        yield jobs[0]()
        return
    with ThreadPoolExecutor(min(len(jobs), WORKERS), thread_name_prefix="tool") as pool:
        # Each job has its own copy of the context, so that its log records name the session.
        contexts = [copy_context() for _ in jobs]
        yield from pool.map(lambda context, job: context.run(job), contexts, jobs)
