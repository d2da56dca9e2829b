"""The in-container side of the sandbox: a session that executes the host's calls.

    runner.py SETTINGS

SETTINGS is a JSON object. `limits` maps names of `resource` to values, for this process and its
children; `users` are the uids of commands, runners and sweepers (see users.py); `filters` has the
system call filter for each machine.

See frames.py for the format, and VERBS for the calls. The host does not trust it. Standard library
only, and nothing that is slow to import.
"""

import contextlib
import errno
import json
import os
import signal
import sys
from importlib import import_module

from sandbox.image.command import describe_process, do_exec, give_up, protect_process, set_limits
from sandbox.image.frames import Json, Refused, Source, read_frame, send_report
from sandbox.image.users import Users, install_filter, sweep

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
VERBS = {
    "put": ("files", "do_put"),
    "get": ("files", "do_get"),
    "pack": ("archive", "do_pack"),
    "unpack": ("archive", "do_unpack"),
}
TIMED_OUT, BROKEN = 124, 1


def perform_call(request: Json, source: Source, users: Users) -> Json:
    """Perform one call; returns its report, which includes failures."""
    verb = request["verb"]
    try:
        if verb == "exec":
            return do_exec(request, users)
        if verb == "sweep":
            sweep(users)
            return {}
        module, name = VERBS[verb]
        perform = getattr(import_module(f"sandbox.image.{module}"), name)
        done: Json = perform(request, source, users)
    except Refused as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        code = "limit" if error.errno in NO_ROOM else "failed"
        return {"error": code, "message": str(error)}
    return done


def answer_in_child(request: Json, source: Source, users: Users) -> int:
    """Answer a call that moves files in a child process, which frees its memory at its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(TIMED_OUT))
            signal.alarm(int(request["timeout"]) + 1)  # nobody is waiting any more
            report = perform_call(request, source, users)
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
    protect_process()
    at_first = describe_process()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request = json.loads(read_frame(0))
            if request["verb"] not in ("exec", "sweep"):
                if answer_in_child(request, Source(), users):
                    sys.exit(BROKEN)
                continue
            source = Source()
            report = perform_call(request, source, users)
            try:
                spoilt = describe_process() != at_first
                source.drain()
                send_report({"id": request["id"], "spoilt": spoilt, **report})
            except (MemoryError, OSError):
                give_up(users)


def main(settings: Json) -> None:
    users = Users(*settings.get("users", ()))
    users.become_runner()
    set_limits(settings.get("limits", {}))
    install_filter(settings.get("filters", {}))
    serve_session(users)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
