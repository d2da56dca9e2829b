"""Celery's timer, which a process that is to end does not wait for."""

import threading
import time

from worker.jobs.process import PromptTimer


def test_a_timer_that_waits_for_its_next_entry_ends_when_it_is_stopped() -> None:
    waiting = threading.Event()
    timer = PromptTimer(max_interval=20.0, on_tick=lambda delay: waiting.set())
    timer.call_after(600, lambda: None)
    assert waiting.wait(10)
    began = time.monotonic()
    timer.stop()
    assert time.monotonic() - began < 10


def test_what_is_due_is_done() -> None:
    done = threading.Event()
    timer = PromptTimer(max_interval=0.01)
    timer.call_after(600, lambda: None)
    timer.call_after(0.02, done.set)
    assert done.wait(10)
    timer.stop()
