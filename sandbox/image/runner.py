"""The in-container side of the sandbox: a session that executes the host's calls.

    runner.py SETTINGS

SETTINGS is a JSON object. `limits` maps names of `resource` to values, for this process and its
children; `users` are the uids of commands, runners and sweepers (see users.py); `filters` has the
system call filter for each machine.

See frames.py for the format, and `_perform_call` for the calls. The host does not trust it.
Standard library only, and nothing that is slow to import.
"""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123

import contextlib
import errno
import json
import os
import signal
import stat
import sys
from importlib import import_module

from sandbox.image.command import IGNORED_SIGNALS, do_exec, give_up, set_limits
from sandbox.image.frames import FRAME, Json, Refused, Source, read_frame, send_data, send_report
from sandbox.image.users import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NAME,
    Users,
    install_filter,
    prctl,
    sweep,
)

ROOT = "/tmp"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
LIMITS = 16  # of the kernel's RLIMIT_*
TIMED_OUT, BROKEN = 124, 1


def _put_file(path: str, source: Source) -> Json:
    """Write the data frames to a temporary file beside the target, then rename it.

    No command can take its name beforehand, as it cannot guess it.
    """
    folder, size = os.path.dirname(path), 0
    part = f"{folder}/.sandpiper-{os.urandom(16).hex()}"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(part, "xb") as file:
            for data in source.read_data():
                size += file.write(data)
        os.rename(part, path)
    except (NotADirectoryError, IsADirectoryError, FileExistsError, PermissionError) as error:
        raise Refused("path", error.strerror or "cannot be written") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
    return {"size": size}


def _get_file(path: str, limit: int) -> Json:
    """Send the first bytes of a regular file. Links are followed: there is nothing to protect."""
    try:
        fd = os.open(os.path.join(ROOT, path), os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise Refused("missing", getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Refused("missing", "not a regular file")
    while limit and (data := os.read(fd, min(limit, FRAME))):
        send_data(data)
        limit -= len(data)
    return {}


def _perform_call(request: Json, source: Source, users: Users) -> Json:
    """Perform one call; returns its report, which includes failures."""
    verb = request["verb"]
    try:
        if verb == "exec":
            return do_exec(request, users)
        if verb == "sweep":
            sweep(users)
            return {}
        if verb == "put":
            return _put_file(request["path"], source)
        if verb == "get":
            return _get_file(request["path"], int(request["limit"]))
        archive = import_module("sandbox.image.archive")  # slow to import
        verbs = {"pack": archive.do_pack, "unpack": archive.do_unpack}
        done: Json = verbs[verb](request, source, users)
    except Refused as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        code = "limit" if error.errno in NO_ROOM else "failed"
        return {"error": code, "message": str(error)}
    return done


def _answer_in_child(request: Json, source: Source, users: Users) -> int:
    """Answer a call that moves files in a child process, which frees its memory at its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(TIMED_OUT))
            signal.alarm(int(request["timeout"]) + 1)  # nobody is waiting any more
            report = _perform_call(request, source, users)
            source.drain()
            send_report({"id": request["id"], **report})
            status = 0
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(code)


def serve_session(users: Users) -> None:
    """Answer requests until the host disconnects.

    Exits with BROKEN if a call that moves files breaks, so that the host can tell this from a lost
    connection. After a command that has changed this process's limits or priority, the report says
    `spoilt`: what the next command inherits would be changed too.
    """
    # Our descriptors and our name are protected from commands, which may have the same uid.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NAME, b"sandpiper")
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    at_first = _describe_process()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request = json.loads(read_frame(0))
            if request["verb"] not in ("exec", "sweep"):
                if _answer_in_child(request, Source(), users):
                    sys.exit(BROKEN)
                continue
            source = Source()
            report = _perform_call(request, source, users)
            try:
                spoilt = _describe_process() != at_first
                source.drain()
                send_report({"id": request["id"], "spoilt": spoilt, **report})
            except (MemoryError, OSError):
                give_up(users)


def _describe_process() -> list[object]:
    """Describe what a process of our uid could have changed about us: limits and priorities."""
    resource = import_module("resource")
    return [
        *(resource.getrlimit(number) for number in range(LIMITS)),
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getscheduler(0),
        os.sched_getaffinity(0),
    ]


def main(settings: Json) -> None:
    users = Users(*settings.get("users", ()))
    users.become_runner()
    set_limits(settings.get("limits", {}))
    install_filter(settings.get("filters", {}))
    serve_session(users)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
