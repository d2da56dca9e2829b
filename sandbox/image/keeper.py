"""Process 1 of a sandbox without an engine: a session for whoever connects, and nobody else.

    keeper.py LISTENER LIMITS

LISTENER is the descriptor of a listening socket, whose path is the host's alone; LIMITS is a JSON
object of names in `resource` and values. Standard input is a lifeline: where it ends, the host is
gone, and with this process everything in its namespace. Runs inside; standard library only.
"""

import contextlib
import os
import select
import signal
import socket
import sys

from sandbox.image.command import (
    DATA,
    OUT,
    PR_SET_DUMPABLE,
    limit,
    make_folder,
    prctl,
    wake_on_child,
)
from sandbox.image.runner import session


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def begin(connection: socket.socket, listener: socket.socket) -> None:
    """In the child: the connection is the session's input and output."""
    listener.close()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wake_on_child.cache_clear()
    for fd in (0, 1):
        os.dup2(connection.fileno(), fd)
    connection.close()
    session()


def admit(listener: socket.socket) -> None:
    """A session of its own. Where no process can be made, there are too many: they are ended."""
    connection, _ = listener.accept()
    with connection:
        try:
            child = os.fork()
        except OSError:
            os.kill(-1, signal.SIGKILL)
            return
        if child == 0:
            try:
                begin(connection, listener)
            finally:
                os._exit(1)


def keep(listener: socket.socket) -> None:
    """Until the lifeline ends."""
    wake = wake_on_child()
    poll = select.poll()
    for fd in (0, wake, listener.fileno()):
        poll.register(fd, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            return
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            reap()
        if listener.fileno() in ready:
            admit(listener)


def main(descriptor: str, limits: str) -> None:
    prctl(PR_SET_DUMPABLE, 0)
    limit(limits)
    os.umask(0o022)
    for folder in (OUT, DATA):
        make_folder(folder)
    with socket.socket(fileno=int(descriptor)) as listener:
        listener.set_inheritable(False)
        keep(listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
