"""The main process of a pod: does nothing, and outlives every command.

It has the commands' uid. From inside its PID namespace only signals that it handles reach process
1, and it handles none; it runs in the interpreter that commands cannot read, so none can trace it.
Processes that lose their parent become its children and end without a trace. Runs inside;
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
