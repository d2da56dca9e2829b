"""The main process of a pod: does nothing, and outlives every command.

It is process 1 and has the commands' uid. From inside a PID namespace, process 1 receives only
signals that it handles, and it handles none. Commands cannot trace it, because they cannot read its
interpreter. Orphaned processes become its children and are reaped automatically. Runs inside;
standard library only.
"""

import signal

IGNORED = ("SIGCHLD", "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


def main() -> None:
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
