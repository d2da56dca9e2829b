"""Checks the configuration and the workflows, and lists the versions."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from worker import DISTRIBUTION
from worker.doctor.base import CheckLine, Installation, report_failed, report_good, report_warning
from worker.doctor.idle_settings import list_idle_settings
from worker.doctor.shadows import HOME, NAMES, find_shadows
from worker.errors import ConfigError
from worker.settings import playbook

SHORTEST_SECRET = 16
_TRIGGERS = "name it in a workflow, or copy the bundled analyze-failures.md into the folder"
_FIELDS = "see CONTRIBUTING.md, Adding a workflow, for what its file may say"
_PACKAGES = (DISTRIBUTION, "celery", "httpx", "python-gitlab", "docker", "boto3")


def check_settings(installation: Installation) -> Iterator[CheckLine]:
    """Name the loaded file, and check values that are valid but make no sense."""
    where = (
        str(installation.file) if installation.file else "no file: the defaults and the environment"
    )
    yield report_good("settings", where)
    chosen = installation.settings.gitlab
    yield from _check_secret(chosen.webhook_secret, has_keys=bool(chosen.webhook_keys))
    yield from _check_encryption("gitlab.url", installation.settings.gitlab.url, "the tokens")
    yield from _check_encryption("pages.url", installation.settings.pages.url, "links to sessions")
    if why := installation.settings.pages.explain_unserved():
        advice = "set pages.url to the address of `sandpiper serve` as browsers reach it"
        yield report_warning("pages.url", why, advice)


def check_idle_settings(installation: Installation) -> Iterator[CheckLine]:
    """Name what is set, or said by a workflow, and has no effect as other settings stand."""
    flows = playbook.load(installation.settings.workflows)
    found = list_idle_settings(installation.settings, flows)
    for each in found:
        yield report_warning("no effect", f"{each.where}: {each.why}", each.advice)
    if not found:
        yield report_good("effect", "whatever is set has its effect")


def _check_encryption(name: str, url: str, what: str) -> Iterator[CheckLine]:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield report_warning(name, f"{url} sends {what} unencrypted", f"use https:// for {name}")


def _check_secret(secret: str, *, has_keys: bool) -> Iterator[CheckLine]:
    name = "webhook secret"
    if secret and has_keys:
        finding = "GITLAB_WEBHOOK_SECRET is still taken for events of every project"
        advice = "unset it, unless a group's webhook or a system hook needs it"
        yield report_warning(name, finding, advice)
    if not secret and not has_keys:
        advice = "set GITLAB_WEBHOOK_SECRET, as to the output of `openssl rand -hex 32`"
        yield report_failed(name, "there is none, so `sandpiper serve` will not start", advice)
    elif secret and len(secret) < SHORTEST_SECRET:
        advice = "set GITLAB_WEBHOOK_SECRET to the output of `openssl rand -hex 32`, here and there"
        yield report_warning(name, "it is short enough to be guessed", advice)


def check_workflows(installation: Installation) -> Iterator[CheckLine]:
    """Check that workflows parse, that failures and requests have one, and that tools exist."""
    try:
        loaded = playbook.load(installation.settings.workflows, installation.tools())
    except ConfigError as error:
        yield from (report_failed("workflows", each, _FIELDS) for each in str(error).splitlines())
        return
    flows = list(loaded.workflows())
    names = ", ".join(flow.name for flow in flows)
    served = {trigger for flow in flows for trigger in flow.triggers}
    template = "no workflow has '{}' among its triggers: {}"
    if "pipeline_failed" not in served:
        finding = template.format("pipeline_failed", "no failed pipeline is analysed")
        yield report_failed("workflows", finding, _TRIGGERS)
    if "command:analyze" not in served:
        finding = template.format("command:analyze", "nobody can ask for an analysis")
        yield report_warning("workflows", finding, _TRIGGERS)
    if {"pipeline_failed", "command:analyze"} <= served:
        yield report_good("workflows", names)


def list_versions(installation: Installation) -> Iterator[CheckLine]:
    """List the versions of Python and of the main packages."""
    versions = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            advice = "install Sandpiper with its dependencies"
            yield report_failed("versions", f"{package} is not installed in {sys.prefix}", advice)
    yield report_good("versions", ", ".join(versions))


def check_packages(installation: Installation) -> Iterator[CheckLine]:
    """Name other packages that are called `worker` or `sandbox`, as Sandpiper's are."""
    found = list(find_shadows(installation.import_path))
    for each in found:
        report = report_failed if each.hides_ours else report_warning
        yield report("packages", each.finding, each.advice)
    if not found:
        yield report_good("packages", f"{' and '.join(NAMES)} are Sandpiper's, in {HOME}")
