"""Logging: one line per event on stderr, and no secret in any of them (law 12)."""

import logging
from collections.abc import Callable


class _Redacting(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def configure(redact: Callable[[str], str], *, quiet: bool = False) -> None:
    """Send records to stderr through `redact`, tracebacks included; `quiet`: only warnings."""
    level = logging.WARNING if quiet else logging.INFO
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting(redact))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("httpx", "httpcore", "urllib3", "botocore", "docker", "celery", "kombu"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))
