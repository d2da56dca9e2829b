"""The in-container side of the sandbox: a session that does what the host asks, call after call.

    runner.py [LIMITS]

LIMITS is a JSON object of names in `resource` and values, for all that it starts, and itself.
See frames.py for what goes in and out, and VERBS for what may be asked. It runs as the uid of the
commands, and the host trusts none of it. Standard library only, and nothing slow to import.
"""

import contextlib
import errno
import json
import os
import signal
import sys
from importlib import import_module

from sandbox.image.command import do_exec, limit, shield
from sandbox.image.frames import Json, Refused, Source, finish, read_frame

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
VERBS = {
    "put": ("files", "do_put"),
    "get": ("files", "do_get"),
    "pack": ("archive", "do_pack"),
    "unpack": ("archive", "do_unpack"),
}
ALARMED = 124


def perform(request: Json, source: Source) -> Json:
    """One call; its failures are part of the report."""
    verb = request["verb"]
    try:
        if verb == "exec":
            return do_exec(request)
        if verb == "sweep":
            return sweep()
        module, name = VERBS[verb]
        done: Json = getattr(import_module(f"sandbox.image.{module}"), name)(request, source)
    except Refused as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        code = "limit" if error.errno in NO_ROOM else "failed"
        return {"error": code, "message": str(error)}
    return done


def sweep() -> Json:
    """End all that runs under our uid, but us and process 1."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    return {}


def answer(request: Json, source: Source) -> None:
    report = perform(request, source)
    source.drain()
    finish({"id": request["id"], **report})


def answer_apart(request: Json, source: Source) -> int:
    """Move files in a child of its own: what that costs in memory and time ends with it."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(ALARMED))
            signal.alarm(int(request["timeout"]) + 1)  # nobody is waiting any more
            answer(request, source)
            status = 0
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(code)


def session() -> None:
    """Answer requests until the host hangs up, or a call went wrong."""
    shield()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            request = json.loads(read_frame(0))
            if request["verb"] in ("exec", "sweep"):
                answer(request, Source())
            elif answer_apart(request, Source()):
                return


if __name__ == "__main__":
    for limits in sys.argv[1:]:
        limit(limits)
    session()
