"""Checks that GitLab answers, that the clocks agree, and what the two tokens may do, and where."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

from worker.doctor.base import (
    CheckLine,
    Installation,
    Unchecked,
    report_failed,
    report_good,
    report_warning,
)
from worker.doctor.gitlab import Account, Client, Project, Refusal

OLDEST = (16, 11)
"""The oldest GitLab whose note events have an `action`, which tells new comments from edits."""

SOON = 14
"""Warn of a token that expires in fewer days than this."""

SKEW = 300.0
"""Seconds of clock difference at which the receiver refuses signed webhooks."""

_NOTICED = 30.0
"""Seconds of clock difference that are warned of."""


def check_gitlab(installation: Installation) -> Iterator[CheckLine]:
    """Check that GitLab answers and is not too old."""
    connection, url = installation.gitlab.connection(), installation.settings.gitlab.url
    if not connection.version:
        yield report_good("reachable", f"{url} answers; it tells its version only to a valid token")
        return
    finding = f"GitLab {connection.version} at {url}"
    match = re.match(r"(\d{1,4})\.(\d{1,4})", connection.version)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield report_warning("reachable", f"{finding} is older than {oldest}", "upgrade GitLab")
    else:
        yield report_good("reachable", finding)


def _require_gitlab(installation: Installation) -> None:
    """Raise Unchecked if GitLab does not answer, which another check already reports."""
    try:
        installation.gitlab.connection()
    except Refusal as error:
        raise Unchecked("GitLab does not answer") from error


def check_read_token(installation: Installation) -> Iterator[CheckLine]:
    """Check that the token is valid, may read, and may not write."""
    name, client = "read token", installation.gitlab.read
    account = _get_account(installation, client)
    if account.scopes is not None and not account.scopes & {"read_api", "api"}:
        advice = "make one with the scope read_api, and set GITLAB_READ_TOKEN"
        yield report_failed(
            name, f"its scopes are {_format_scopes(account)}: it may not read the API", advice
        )
        return
    yield from _check_expiry(name, "GITLAB_READ_TOKEN", account, installation.now())
    if account.scopes and "api" in account.scopes:
        advice = (
            "set GITLAB_READ_TOKEN to one with the scope read_api alone: what the model reads with "
            "should not be able to write"
        )
        yield report_warning(name, f"@{account.username}: it may write too (scope api)", advice)
    else:
        yield report_good(name, _describe_account(account))


def check_write_token(installation: Installation) -> Iterator[CheckLine]:
    """Check that the token is valid, may write notes, and is not a person's own."""
    name, client = "write token", installation.gitlab.write
    account = _get_account(installation, client)
    if account.scopes is not None and "api" not in account.scopes:
        advice = "make one with the scope api, and set GITLAB_WRITE_TOKEN"
        yield report_failed(
            name, f"its scopes are {_format_scopes(account)}: it may not write notes", advice
        )
        return
    yield from _check_expiry(name, "GITLAB_WRITE_TOKEN", account, installation.now())
    if account.scopes and account.scopes & {"sudo", "admin_mode"}:
        advice = "set GITLAB_WRITE_TOKEN to one with the scope api alone"
        yield report_warning(
            name, f"its scopes are {_format_scopes(account)}: more than notes need", advice
        )
    if account.bot:
        yield report_good(name, _describe_account(account))
    else:
        advice = (
            "use the token of a project, of a group or of a service account, unless the account is "
            "Sandpiper's own: notes stand under its name"
        )
        yield report_warning(name, f"@{account.username} is not a bot", advice)


def _get_account(installation: Installation, client: Client) -> Account:
    if not client.token:
        scope = "read_api" if client.role == "read" else "api"
        raise Refusal(f"there is none: set GITLAB_{client.role.upper()}_TOKEN (scope {scope})")
    _require_gitlab(installation)
    return installation.gitlab.reader() if client.role == "read" else installation.gitlab.writer()


def _check_expiry(name: str, variable: str, account: Account, now: float) -> Iterator[CheckLine]:
    if not account.expires:
        return
    try:
        today = datetime.fromtimestamp(now, UTC).date()
        days = (date.fromisoformat(account.expires) - today).days
    except ValueError:
        return
    if days < SOON:
        when = "today" if days <= 0 else "tomorrow" if days == 1 else f"in {days} days"
        advice = f"rotate it in GitLab, and set {variable} to what it gives you"
        yield report_warning(name, f"it expires {when} ({account.expires})", advice)


def _format_scopes(account: Account) -> str:
    return ", ".join(sorted(account.scopes or ())) or "none"


def _describe_account(account: Account) -> str:
    scopes = "" if account.scopes is None else f", scopes {_format_scopes(account)}"
    until = f", until {account.expires}" if account.expires else ""
    return f"@{account.username}{scopes}{until}"


def check_gitlab_clock(installation: Installation) -> Iterator[CheckLine]:
    """Check that GitLab's clock and ours agree, as signatures of webhooks and of S3 require."""
    _require_gitlab(installation)
    ahead = installation.gitlab.connection().ahead
    if ahead is None:
        raise Unchecked("GitLab told no time")
    yield compare_clocks("clock", "GitLab", ahead)


def compare_clocks(name: str, whose: str, ahead: float) -> CheckLine:
    """Make a line about the difference between two clocks; `ahead` is in seconds."""
    if abs(ahead) < _NOTICED:
        return report_good(name, f"within {max(1, round(abs(ahead)))} s of {whose}'s")
    direction = "behind" if ahead > 0 else "ahead of"
    finding = f"this machine's clock is {abs(ahead):.0f} s {direction} {whose}'s"
    advice = "let both keep time by NTP: signatures that are 5 minutes off are refused"
    return (report_failed if abs(ahead) >= SKEW else report_warning)(name, finding, advice)


MAX_PROJECTS = 20
"""The most projects that are checked one by one."""

SECONDS, FIXING = 12.0, 540.0
"""Seconds to check projects, FIXING with `--fix`. The rest is skipped, which is reported."""

_NAMED = 5
_REPORTER, _DEVELOPER = 20, 30
_LEVELS = {10: "Guest", 15: "Planner", 20: "Reporter", 30: "Developer", 40: "Maintainer"}


def list_served(installation: Installation) -> Sequence[Project]:
    """Return the visible projects that `gitlab.projects` selects. Raises Unchecked."""
    _require_gitlab(installation)
    if not installation.gitlab.read.token:
        raise Unchecked("there is no read token")
    try:
        visible = installation.gitlab.projects()
    except Refusal as error:
        raise Unchecked("the projects cannot be listed") from error
    globs = installation.settings.gitlab.projects
    return [each for each in visible if not globs or _is_listed(each, globs)]


def _is_listed(project: Project, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(project.path.lower(), glob.lower()) for glob in globs)


def check_projects(installation: Installation) -> Iterator[CheckLine]:
    """Check that the read token's user is a member of a project that `gitlab.projects` selects."""
    if not installation.gitlab.read.token:
        raise Unchecked("there is no read token")
    _require_gitlab(installation)
    globs = installation.settings.gitlab.projects
    try:
        visible = installation.gitlab.projects()
    except Refusal as error:
        if error.status == 401:
            raise Unchecked("the read token is refused") from error
        raise
    selected = [each for each in visible if not globs or _is_listed(each, globs)]
    listed = f"of gitlab.projects ({', '.join(globs[:_NAMED])})" if globs else "at all"
    if not selected:
        advice = "make the bot a member of the projects or their group, or correct gitlab.projects"
        yield report_failed("projects", f"the read token sees no project {listed}", advice)
        return
    for glob in globs:
        if not any(_is_listed(each, [glob]) for each in visible):
            advice = "make the bot a member there, or take it out of gitlab.projects"
            yield report_warning("projects", f"nothing visible is named {glob}", advice)
    kind = "visible" if globs else "served, the bot's memberships, as gitlab.projects is empty"
    yield report_good("projects", f"{len(selected)} {kind}: {format_names(selected)}")


def format_names(projects: Sequence[Project]) -> str:
    """Format the first few names and the number of others."""
    shown = ", ".join(each.path for each in projects[:_NAMED])
    more = len(projects) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def select_projects(installation: Installation, *, all_of_them: bool = False) -> Iterator[Project]:
    """Yield projects to check one by one, until the time limit."""
    until = installation.monotonic() + (FIXING if all_of_them else SECONDS)
    for project in list_served(installation)[: None if all_of_them else MAX_PROJECTS]:
        if installation.monotonic() > until:
            return
        yield project


def check_role(installation: Installation) -> Iterator[CheckLine]:
    """Check that the write token's user may comment on merge requests, and run their jobs again if
    `incidents.rerun` is to do that."""
    if not installation.gitlab.write.token:
        raise Unchecked("there is no write token")
    _require_gitlab(installation)
    try:
        me = installation.gitlab.writer()
    except Refusal as error:
        raise Unchecked("the write token's user is not known") from error
    able: list[tuple[int, Project]] = []
    low: list[Project] = []
    for project in select_projects(installation):
        level = _get_level(installation.gitlab.write, project, me.user_id)
        if level >= _REPORTER:
            able.append((level, project))
        else:
            low.append(project)
    if low:
        advice = f"make @{me.username} a Reporter (or Developer) there"
        yield report_failed(
            "role", f"@{me.username} may not comment in {format_names(low)}", advice
        )
    limited = [project for level, project in able if level < _DEVELOPER]
    if limited and installation.settings.incidents.rerun:
        finding = f"@{me.username} may run no jobs again in {format_names(limited)}"
        advice = "make it a Developer there, or set incidents.rerun to 0"
        yield report_warning("role", finding, advice)
    elif able:
        least, _ = min(able, key=lambda each: each[0])
        role = _LEVELS.get(least, "Owner")
        count = f"{len(able)} of {len(list_served(installation))} projects"
        yield report_good("role", f"@{me.username} is {role} or more in {count}")
    elif not low:
        raise Unchecked("there is no project to look at")


def check_read_role(installation: Installation) -> Iterator[CheckLine]:
    """Check that the read token's user is a Reporter in each project, no less and no more."""
    _require_gitlab(installation)
    try:
        me, writer = installation.gitlab.reader(), installation.gitlab.writer()
    except Refusal as error:
        raise Unchecked("the tokens' users are not known") from error
    if me.user_id == writer.user_id:
        finding = f"@{me.username} reads and writes; one of its own could be Reporter alone"
        yield report_good("read role", finding)
        return
    levels: dict[int, list[Project]] = {}
    for project in select_projects(installation):
        level = _get_level(installation.gitlab.read, project, me.user_id)
        levels.setdefault((level > _REPORTER) - (level < _REPORTER), []).append(project)
    if low := levels.get(-1):
        advice = f"make @{me.username} a Reporter there"
        finding = f"@{me.username} may not read all pipelines in {format_names(low)}"
        yield report_failed("read role", finding, advice)
    if high := levels.get(1):
        advice = (
            f"make @{me.username} a Reporter there: a Developer also reads artifacts and debug "
            "traces that are kept from readers of the notes"
        )
        finding = f"@{me.username} is more than Reporter in {format_names(high)}"
        yield report_warning("read role", finding, advice)
    if right := levels.get(0):
        yield report_good("read role", f"@{me.username} is Reporter in {format_names(right)}")
    if not levels:
        raise Unchecked("there is no project to look at")


def _get_level(client: Client, project: Project, user: int) -> int:
    path = f"/projects/{project.id}/members/all/{user}"
    try:
        member = client.request("get", path, f"the role in {project.path}").value
    except Refusal as error:
        if error.status in (403, 404):
            return 0
        raise
    level = member.get("access_level") if isinstance(member, dict) else 0
    return level if isinstance(level, int) else 0


def check_internal_notes(installation: Installation) -> Iterator[CheckLine]:
    """List projects whose notes are internal, because only members may see their job logs."""
    projects = [each for each in list_served(installation) if each.internal]
    if not projects:
        yield report_good("notes", "whoever reads a merge request may open its job logs")
        return
    finding = f"notes are internal, as job logs are for members only, in {format_names(projects)}"
    advice = "for notes that all can read, turn on project-based pipeline visibility there"
    yield report_warning("notes", finding, advice)
