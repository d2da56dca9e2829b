"""Checks a process's health: `python -m worker.health [URL]`, for health checks of the image.

It imports only the standard library, because it runs every few seconds. Without a URL, it checks
the container's first process: `serve` must answer /healthz, and `worker` /metrics if it has any.
"""

import http.client
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

SECONDS = 4.0


def find_url(command: Sequence[str]) -> str:
    """Return the URL at which a command must answer; "" if it listens on no port."""
    if "serve" in command:
        return f"http://127.0.0.1:{_read_option(command, '--port') or 8080}/healthz"
    if "worker" in command and (port := _read_option(command, "--metrics-port")):
        return f"http://127.0.0.1:{port}/metrics"
    return ""


def _read_option(command: Sequence[str], name: str) -> str:
    for at, word in enumerate(command):
        if word == name:
            return command[at + 1] if at + 1 < len(command) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def check_url(url: str) -> str:
    """Return what is wrong, "" if nothing is."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        response = connection.getresponse()
        if response.status == http.client.OK:
            return ""
        return f"{url} answers {response.status}: {response.read(500).decode(errors='replace')}"
    except (OSError, http.client.HTTPException) as error:
        return f"{url} does not answer: {error}"
    finally:
        connection.close()


def main() -> int:
    """Return the exit status; if something is wrong, print the reason and return 1."""
    if len(sys.argv) > 1:
        url = sys.argv[1]
    else:
        first = Path("/proc/1/cmdline").read_text("utf-8", "replace")
        url = find_url(first.split("\0"))
    reason = check_url(url) if url else ""
    if reason:
        sys.stderr.write(f"{reason}\n")
    return int(bool(reason))


if __name__ == "__main__":
    sys.exit(main())
