"""A signal that the main thread's system call does not notice."""

import os
import signal
import threading
import time

from worker.cli.terminal import StoppedBySignal, watch_signals


def test_a_signal_that_another_thread_gets_ends_the_main_threads_wait() -> None:
    reading, writing = os.pipe()
    done, ended = threading.Event(), threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()

    def stop(number: int) -> None:
        raise StoppedBySignal(number)

    def send() -> None:
        time.sleep(0.2)  # the main thread reads by then; if not, the test passes as well
        signal.pthread_kill(other.ident or 0, signal.SIGINT)
        if not ended.wait(20):
            os.write(writing, b"nothing else has ended the wait")

    sender = threading.Thread(target=send, daemon=True)
    before = threading.active_count()
    came: list[int] = []
    try:
        with watch_signals(stop, lambda: None) as came:
            sender.start()
            os.read(reading, 1)
    except StoppedBySignal:
        os.write(writing, b".")
    finally:
        ended.set()
        done.set()
        other.join()
    assert os.read(reading, 100) == b"."
    assert came == [signal.SIGINT]
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    assert threading.active_count() <= before + 1
