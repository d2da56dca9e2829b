"""The configuration, the workflows, and what runs here."""

import platform
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from worker import playbook
from worker.doctor.base import Line, Patient, failed, good, warning

SHORTEST_SECRET = 16
_OPTIONAL = ("konflux_", "testing_farm_")
"""Sources that workflows name for where they are configured."""

_PACKAGES = ("sandpiper", "celery", "httpx", "python-gitlab", "docker", "boto3")


def settings(patient: Patient) -> Iterator[Line]:
    """That it loaded is known by now: where from, and whether it makes sense."""
    where = str(patient.file) if patient.file else "no file: the defaults and the environment"
    yield good("settings", where)
    yield from _secret(patient.settings.gitlab.webhook_secret)
    yield from _plain("gitlab.url", patient.settings.gitlab.url, "the tokens")
    yield from _plain("pages.url", patient.settings.pages.url, "links to sessions")
    if why := patient.settings.pages.why_unsafe(patient.settings.gitlab.webhook_secret):
        advice = "set SANDPIPER_PAGE_SECRET to the output of `openssl rand -hex 32`, everywhere"
        yield warning("pages.secret", why, advice)


def _plain(name: str, url: str, what: str) -> Iterator[Line]:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield warning(name, f"{url} sends {what} unencrypted", f"use https:// for {name}")


def _secret(secret: str) -> Iterator[Line]:
    name = "webhook secret"
    if not secret:
        advice = "set GITLAB_WEBHOOK_SECRET, as to the output of `openssl rand -hex 32`"
        yield failed(name, "there is none, so `sandpiper serve` will not start", advice)
    elif len(secret) < SHORTEST_SECRET:
        advice = "set GITLAB_WEBHOOK_SECRET to the output of `openssl rand -hex 32`, here and there"
        yield warning(name, "it is short enough to be guessed", advice)


def workflows(patient: Patient) -> Iterator[Line]:
    """They parse, somebody analyses failures, and the tools they name exist."""
    book = playbook.load(patient.settings.workflows)
    book.for_trigger("pipeline_failed")
    known, wrong = patient.tools(), False
    for flow in book.workflows():
        for glob in flow.tools:
            if any(fnmatchcase(tool, glob) for tool in known) or glob.startswith(_OPTIONAL):
                continue
            wrong = True
            yield failed(
                "workflows", f"{flow.name}: no tool is named {glob!r}", _meant(glob, known)
            )
    if not wrong:
        yield good("workflows", ", ".join(flow.name for flow in book.workflows()))


def _meant(glob: str, known: Sequence[str]) -> str:
    near = get_close_matches(glob, known, n=3, cutoff=0.5)
    such = f", such as {', '.join(near)}" if near else ""
    return f"name in `tools:` of its file what there is{such}"


def versions(patient: Patient) -> Iterator[Line]:
    """What runs here."""
    told = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            told.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            advice = "install Sandpiper with its dependencies"
            yield failed("versions", f"{package} is not installed in {sys.prefix}", advice)
    yield good("versions", ", ".join(told))
