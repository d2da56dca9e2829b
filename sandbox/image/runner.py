"""The in-container side of the sandbox: one verb per call, as the uid of the commands.

    runner.py exec | put | get | pack | unpack

See frames.py for what goes in and out. The host trusts none of it. Standard library only, and
nothing slow to import: this file is started for every command.
"""

import contextlib
import errno
import json
import signal
import sys
from collections.abc import Callable
from importlib import import_module

from sandbox.image.frames import Json, Refused, Source, finish

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)
VERBS = {
    "exec": ("command", "do_exec"),
    "put": ("files", "do_put"),
    "get": ("files", "do_get"),
    "pack": ("archive", "do_pack"),
    "unpack": ("archive", "do_unpack"),
}


def perform(verb: str, request: Json, source: Source) -> Json:
    module, name = VERBS[verb]
    work: Callable[[Json, Source], Json] = getattr(import_module(f"sandbox.image.{module}"), name)
    try:
        return work(request, source)
    except Refused as error:
        return {"error": error.code, "message": str(error)}
    except OSError as error:
        code = "limit" if error.errno in NO_ROOM else "failed"
        return {"error": code, "message": str(error)}


def main(verb: str) -> None:
    source = Source()
    request = json.loads(source.frame())
    if verb != "exec":
        signal.alarm(int(request["timeout"]) + 1)  # nobody is waiting any more
    with contextlib.suppress(EOFError):  # the host gave up
        report = perform(verb, request, source)
        source.drain()
        finish(report)


if __name__ == "__main__":
    main(sys.argv[1])
