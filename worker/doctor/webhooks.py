"""Checks GitLab's webhooks: each project needs one that has the right settings and is delivered.

Needs a Maintainer's token (https://docs.gitlab.com/api/project_webhooks/): GITLAB_SETUP_TOKEN, else
the write token.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from worker.doctor.base import (
    CheckLine,
    Installation,
    Unchecked,
    report_failed,
    report_good,
    report_unchecked,
    report_warning,
)
from worker.doctor.gitlab import Client, Project, Refusal, list_objects
from worker.doctor.tokens import format_names, list_served, select_projects
from worker.settings.gitlab import SIGNING, derive_secret, make_address

PATH = "/webhooks/gitlab"
NEEDED = {"pipeline_events": "pipelines", "note_events": "comments"}
WANTED = {"confidential_note_events": "internal comments", "emoji_events": "reactions"}
TESTS = 3
"""The most test deliveries; GitLab allows 5 a minute for each project."""

ARRIVAL = 4.0
"""Seconds to wait for the test delivery in GitLab's list of events."""

_UNREACHED = (
    "GitLab could not deliver: see that its address resolves and its certificate holds from there, "
    "and for a private address that Admin → Settings → Network allows webhooks to the local network"
)
_ASK = (
    "set GITLAB_SETUP_TOKEN to a Maintainer's token (scope api) for this command, or look in "
    "GitLab at Settings → Webhooks"
)

Hook = Mapping[str, Any]
Problem = tuple[str, str, bool]
"""What is wrong with a webhook, what to do, and whether it is fatal."""


@dataclass
class _Results:
    """The results by project; projects with the same problem share one line."""

    right: list[Project] = field(default_factory=list)
    closed: list[Project] = field(default_factory=list)
    wrong: dict[tuple[bool, str, str], list[Project]] = field(default_factory=dict)
    arrived: list[tuple[Project, str]] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    tests: int = 0

    def add_problem(
        self, project: Project, finding: str, advice: str, *, fatal: bool = True
    ) -> None:
        self.wrong.setdefault((fatal, finding, advice), []).append(project)


def check_webhooks(installation: Installation) -> Iterator[CheckLine]:
    """Check every served project's webhooks within the time limit; `fix` repairs them first."""
    if not installation.gitlab.setup.token:
        raise Unchecked("there is no write token, nor GITLAB_SETUP_TOKEN")
    results = _Results()
    seen = 0
    for project in select_projects(installation, all_of_them=installation.fix):
        seen += 1
        try:
            _check_project(installation, project, results)
        except Refusal as error:
            if error.status == 401 and installation.gitlab.setup is installation.gitlab.write:
                raise Unchecked("the write token is refused") from error
            if error.status not in (403, 404) or "scope" in str(error):
                raise
            results.closed.append(project)
    if not seen:
        raise Unchecked("there is no project to look at")
    yield from _format_lines(installation, results, seen)


def _format_lines(installation: Installation, results: _Results, seen: int) -> Iterator[CheckLine]:
    for what in results.fixed:
        yield report_good("webhook", what)
    for (fatal, finding, advice), projects in results.wrong.items():
        yield (report_failed if fatal else report_warning)(
            "webhook", f"{format_names(projects)}: {finding}", advice
        )
    if results.closed:
        finding = f"the token is no Maintainer's in {format_names(results.closed)}"
        yield (report_failed if installation.fix else report_unchecked)("webhook", finding, _ASK)
    if results.right:
        total = len(list_served(installation))
        few = f" (looked at {seen})" if seen < total else ""
        yield report_good("webhook", f"right for {len(results.right)} of {total} projects{few}")
    if results.arrived:
        for how in dict.fromkeys(how for _, how in results.arrived):
            where = [project for project, each in results.arrived if each == how]
            yield report_good("delivery", f"{how} in {format_names(where)}")


def _check_project(installation: Installation, project: Project, results: _Results) -> None:
    client = installation.gitlab.setup
    here = _select_ours(
        _list_hooks(client, f"/projects/{project.id}/hooks", project), installation.url
    )
    # What a group's webhook sends is of many projects, so it has the secret that all share.
    shares = bool(installation.settings.gitlab.webhook_secret)
    above = [] if here or not shares else _list_group_hooks(client, project)
    if above := _select_ours(above, installation.url):
        _check_hooks(project, above, _find_problems(above[0]), results)
        return
    if installation.fix:
        here = _repair(installation, project, here, results)
    if not here:
        results.add_problem(project, *_explain_missing(installation, project))
        return
    problems = [*_find_problems(here[0]), *_find_wrong_address(installation, project, here[0])]
    _check_hooks(project, here, problems, results)
    _check_delivery(installation, project, here[0], results)


def _check_hooks(
    project: Project, here: Sequence[Hook], found: Iterable[Problem], results: _Results
) -> None:
    if len(here) > 1:
        advice = "remove all but one in GitLab at Settings → Webhooks"
        results.add_problem(project, "several webhooks lead here", advice, fatal=False)
    problems = list(found)
    for finding, advice, fatal in problems:
        results.add_problem(project, finding, advice, fatal=fatal)
    if not any(fatal for _, _, fatal in problems):
        results.right.append(project)


def _explain_missing(installation: Installation, project: Project) -> tuple[str, str]:
    path = f"/projects/{project.id}/hooks"
    others = [
        str(hook.get("url", ""))
        for hook in _list_hooks(installation.gitlab.setup, path, project)
        if _leads_to_us(hook)
    ]
    url = f"{installation.url}{PATH}" if installation.url else f"https://…{PATH}"
    finding = f"no webhook to {url}" + (
        f", but one to {''.join(_split_url(others[0]))}" if others else ""
    )
    how = "`sandpiper doctor --fix --url https://…`" if not installation.url else "`--fix`"
    return finding, f"add it in GitLab at Settings → Webhooks, or let {how} do it"


def _find_wrong_address(
    installation: Installation, project: Project, hook: Hook
) -> Iterator[Problem]:
    """Yield what is wrong with the end of a webhook's address, which says whose secret it has."""
    query = str(hook.get("url", "")).partition("?")[2]
    chosen = installation.settings.gitlab
    if chosen.webhook_keys and not query:
        fix = "let `--fix` give it one of its own"
        yield "the webhook has the secret that projects share", fix, not chosen.webhook_secret
    elif chosen.webhook_keys and query != make_address("", project.id)[1:]:
        fix = f"let its address end with {make_address('', project.id)}, or use `--fix`"
        yield "the webhook's address names another project", fix, True
    elif query and not chosen.webhook_keys:
        fix = "set GITLAB_WEBHOOK_KEY as for `sandpiper serve`, or use `--fix`"
        yield "the webhook has a secret of its own, and no key is set here", fix, False


def _find_problems(hook: Hook) -> Iterator[Problem]:
    """Yield a webhook's problems."""
    fix = "switch it on at Settings → Webhooks, or with `--fix`"
    if off := [name for key, name in NEEDED.items() if hook.get(key) is not True]:
        yield f"the webhook leaves out {' and '.join(off)}", fix, True
    if off := [name for key, name in WANTED.items() if key in hook and hook[key] is not True]:
        yield f"the webhook leaves out {' and '.join(off)}", fix, False
    if hook.get("alert_status", "executable") != "executable":
        finding = f"GitLab has disabled the webhook ({str(hook['alert_status'])[:40]})"
        yield finding, "test it at Settings → Webhooks, or with `--fix`, once deliveries work", True
    https = str(hook.get("url", "")).startswith("https://")
    if https and hook.get("enable_ssl_verification") is not True:
        yield "SSL verification is off, so anybody in between may listen", fix, False
    present = [hook.get(key) for key in ("token_present", "signing_token_present")]
    if any(each is False for each in present) and True not in present:
        yield "the webhook has no secret", "use `--fix`, or set it in GitLab", True


# ---------------------------------------------------------------------------------------- listing


def _list_hooks(client: Client, path: str, project: Project) -> list[Hook]:
    hooks = client.list_all(path, f"the webhooks of {project.path}", {})
    return [hook for hook in hooks if isinstance(hook.get("id"), int)]


def _list_group_hooks(client: Client, project: Project) -> list[Hook]:
    """List webhooks of the parent groups (Premium), if the token's user is their Owner."""
    hooks: list[Hook] = []
    group = project.path.rpartition("/")[0]
    while group:
        try:
            hooks += _list_hooks(client, f"/groups/{quote(group, safe='')}/hooks", project)
        except Refusal:
            return hooks
        group = group.rpartition("/")[0]
    return hooks


def _select_ours(hooks: Sequence[Hook], url: str) -> list[Hook]:
    """Select webhooks to our address, or to any address with our path if ours is unknown."""
    if url:
        return [
            each for each in hooks if str(each.get("url", "")).partition("?")[0] == f"{url}{PATH}"
        ]
    return [each for each in hooks if _leads_to_us(each)]


def _leads_to_us(hook: Hook) -> bool:
    return _split_url(str(hook.get("url", "")))[1].rstrip("/") == PATH


def _split_url(url: str) -> tuple[str, str]:
    """Return a URL's host and path, without what may be secret: user, password, query."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.path
    except ValueError:
        return "", ""


# --------------------------------------------------------------------------------------- repairing


def _repair(
    installation: Installation, project: Project, here: Sequence[Hook], results: _Results
) -> list[Hook]:
    """Create or correct the project's webhook if necessary; return its webhooks afterwards."""
    path, client = f"/projects/{project.id}/hooks", installation.gitlab.setup
    if not here:
        created = client.request(
            "post",
            path,
            f"a webhook for {project.path}",
            fields=_make_fields(installation, project),
        )
        results.fixed.append(f"made in {project.path}, to {installation.url}{PATH}")
        return list(list_objects([created.value]))
    hook = here[0]
    problems = [*_find_problems(hook), *_find_wrong_address(installation, project, hook)]
    # Which of two keys a secret is of, GitLab does not tell.
    is_changing = len(installation.settings.gitlab.webhook_keys) > 1
    if is_changing or problems or _get_last_status(client, path, hook) == "401":
        path = f"{path}/{int(hook['id'])}"
        changed = client.request(
            "put",
            path,
            f"{project.path}'s webhook",
            fields=_make_fields(installation, project),
        )
        results.fixed.append(f"put right in {project.path}")
        return [*list_objects([changed.value]), *here[1:]]
    return list(here)


def _make_fields(installation: Installation, project: Project) -> dict[str, Any]:
    address, secret = f"{installation.url}{PATH}", installation.settings.gitlab.webhook_secret
    if keys := installation.settings.gitlab.webhook_keys:
        address, secret = make_address(address, project.id), derive_secret(keys[0], project.id)
    kind = "signing_token" if secret.startswith(SIGNING) else "token"
    return {
        "url": address,
        "push_events": False,
        **dict.fromkeys((*NEEDED, *WANTED), True),
        "enable_ssl_verification": True,
        kind: secret,
    }


# -------------------------------------------------------------------------------------- delivering


def _check_delivery(
    installation: Installation, project: Project, hook: Hook, results: _Results
) -> None:
    """Check that the last delivery arrived; if not, request a test delivery of a push event."""
    client, path = installation.gitlab.setup, f"/projects/{project.id}/hooks"
    last = _get_last_status(client, path, hook)
    if _is_success(last) and hook.get("alert_status", "executable") == "executable":
        results.arrived.append((project, "the last delivery arrived"))
        return
    if results.tests < TESTS:
        results.tests += 1
        last = _test_delivery(client, path, hook, project)
    if _is_success(last):
        results.arrived.append((project, "a test delivery arrived"))
    elif last == "401":
        ours = f"what `sandpiper webhook {project.id}` prints"
        if not installation.settings.gitlab.webhook_keys:
            ours = "GITLAB_WEBHOOK_SECRET"
        advice = f"set the webhook's secret to {ours}, or use `--fix`"
        results.add_problem(project, "the delivery was refused (401): the secrets differ", advice)
    elif last.isdigit():
        advice = "see what `sandpiper serve` logs, and what stands before it"
        results.add_problem(project, f"the delivery was answered with {last}", advice)
    elif last:
        results.add_problem(project, f"the delivery did not arrive ({last})", _UNREACHED)


def _is_success(status: str) -> bool:
    return len(status) == 3 and status[0] in "23"


def _list_events(client: Client, path: str, hook: Hook) -> list[Hook]:
    events = f"{path}/{int(hook['id'])}/events"
    try:
        answer = client.request("get", events, "the webhook's deliveries", {"per_page": 5})
    except Refusal as error:
        if error.status in (400, 404):  # before GitLab 17.3
            return []
        raise
    usable = [each for each in list_objects(answer.value) if isinstance(each.get("id"), int)]
    return sorted(usable, key=lambda each: -int(each["id"]))


def _get_last_status(client: Client, path: str, hook: Hook) -> str:
    events = _list_events(client, path, hook)
    return str(events[0].get("response_status", ""))[:60] if events else ""


def _test_delivery(client: Client, path: str, hook: Hook, project: Project) -> str:
    """Return a test delivery's status, the reason why GitLab refused it, or "" if unknown."""
    newest = max((int(each.get("id", 0)) for each in _list_events(client, path, hook)), default=0)
    test = f"{path}/{int(hook['id'])}/test/push_events"
    try:
        client.request("post", test, f"a test of {project.path}'s webhook")
    except Refusal as error:
        return error.reason or "refused" if error.status == 422 else ""
    until = time.monotonic() + ARRIVAL
    while True:
        events = _list_events(client, path, hook)
        if events and int(events[0].get("id", 0)) > newest:
            return str(events[0].get("response_status", ""))[:60]
        if time.monotonic() > until:
            return ""
        time.sleep(0.2)
