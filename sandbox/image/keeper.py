"""Process 1 of a sandbox without an engine: starts a session for each connection.

    keeper.py LISTENER LIMITS

LISTENER is the descriptor of a listening socket, which only the host can reach; LIMITS is a JSON
object that maps names of `resource` to values. When standard input ends, the host is gone: this
process exits, and with it every process of its namespace. Runs inside; standard library only.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

from sandbox.image.command import (
    DATA,
    IGNORED_SIGNALS,
    OUT,
    make_folder,
    open_child_signal,
    reap_children,
    set_limits,
)
from sandbox.image.runner import serve_session
from sandbox.image.users import PR_SET_DUMPABLE, Users, prctl


def _accept_connection(listener: socket.socket) -> None:
    """Fork a session for a connection. If that fails, there are too many processes: kill them."""
    connection, _ = listener.accept()
    with connection:
        try:
            child = os.fork()
        except OSError:
            os.kill(-1, signal.SIGKILL)
            return
        if child == 0:
            try:
                listener.close()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                open_child_signal.cache_clear()
                for fd in (0, 1):
                    os.dup2(connection.fileno(), fd)
                connection.close()
                serve_session(Users())
            finally:
                os._exit(1)


def _serve_connections(listener: socket.socket) -> None:
    """Accept connections until standard input ends."""
    wake = open_child_signal()
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
            reap_children()
        if listener.fileno() in ready:
            _accept_connection(listener)


def main(descriptor: str, limits: str) -> None:
    prctl(PR_SET_DUMPABLE, 0)
    for number in IGNORED_SIGNALS:  # Python's own handler of SIGINT would end the sandbox
        signal.signal(number, signal.SIG_IGN)
    set_limits(json.loads(limits))
    os.umask(0o022)
    for folder in (OUT, DATA):
        make_folder(folder)
    with socket.socket(fileno=int(descriptor)) as listener:
        listener.set_inheritable(False)
        _serve_connections(listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
