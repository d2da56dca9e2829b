"""The in-container side of the sandbox: a session that executes the host's calls.

    runner.py [LIMITS]

LIMITS is a JSON object that maps names of `resource` to values, for this process and its children.
See frames.py for the format, and VERBS for the calls. It runs as the uid of the commands, and the
host does not trust it. Standard library only, and nothing that is slow to import.
"""

import contextlib
import errno
import json
import os
import signal
import sys
from importlib import import_module

from sandbox.image.command import do_exec, protect_process, set_limits
from sandbox.image.frames import Json, Refused, Source, read_frame, send_report

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
VERBS = {
    "put": ("files", "do_put"),
    "get": ("files", "do_get"),
    "pack": ("archive", "do_pack"),
    "unpack": ("archive", "do_unpack"),
}
TIMED_OUT, BROKEN = 124, 1


def perform_call(request: Json, source: Source) -> Json:
    """Perform one call; returns its report, which includes failures."""
    verb = request["verb"]
    try:
        if verb == "exec":
            return do_exec(request)
        if verb == "sweep":
            return kill_commands()
        module, name = VERBS[verb]
        done: Json = getattr(import_module(f"sandbox.image.{module}"), name)(request, source)
    except Refused as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        code = "limit" if error.errno in NO_ROOM else "failed"
        return {"error": code, "message": str(error)}
    return done


def kill_commands() -> Json:
    """Kill every process of our uid but this one and process 1."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    return {}


def answer_call(request: Json, source: Source) -> None:
    report = perform_call(request, source)
    source.drain()
    send_report({"id": request["id"], **report})


def answer_in_child(request: Json, source: Source) -> int:
    """Answer a call that moves files in a child process, which frees its memory at its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(TIMED_OUT))
            signal.alarm(int(request["timeout"]) + 1)  # nobody is waiting any more
            answer_call(request, source)
            status = 0
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(code)


def serve_session() -> None:
    """Answer requests until the host disconnects.

    Exits with BROKEN if a call breaks, so that the host can tell this from a lost connection.
    """
    protect_process()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request = json.loads(read_frame(0))
            if request["verb"] in ("exec", "sweep"):
                answer_call(request, Source())
            elif answer_in_child(request, Source()):
                sys.exit(BROKEN)


if __name__ == "__main__":
    for limits in sys.argv[1:]:
        set_limits(limits)
    serve_session()
