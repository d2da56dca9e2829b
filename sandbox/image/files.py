"""Writes and reads one file."""

# pathlib takes as long to import as all the rest together.
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123

import contextlib
import os
import stat

from sandbox.image.frames import FRAME, Json, Refused, Source, send_data
from sandbox.image.users import Users

ROOT = "/tmp"


def do_put(request: Json, source: Source, _: Users) -> Json:
    """Write the data frames to a temporary file beside the target, then rename it.

    No command can take its name beforehand, as it cannot guess it.
    """
    path = request["path"]
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


def do_get(request: Json, _: Source, __: Users) -> Json:
    """Send the first bytes of a regular file. Links are followed: there is nothing to protect."""
    try:
        fd = os.open(os.path.join(ROOT, request["path"]), os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise Refused("missing", getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Refused("missing", "not a regular file")
    left = int(request["limit"])
    while left and (data := os.read(fd, min(left, FRAME))):
        send_data(data)
        left -= len(data)
    return {}
