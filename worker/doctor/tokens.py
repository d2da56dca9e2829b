"""Checks that GitLab answers, what the two tokens may do, and that the clocks agree."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

from worker.doctor.base import (
    Installation,
    Line,
    Unchecked,
    report_failed,
    report_good,
    report_warning,
)
from worker.doctor.gitlab import Account, Client, Refusal

OLDEST = (16, 11)
"""The oldest GitLab whose note events have an `action`, which tells new comments from edits."""

SOON = 14
"""Warn of a token that expires in fewer days than this."""

SKEW = 300.0
"""Seconds of clock difference at which the receiver refuses signed webhooks."""

_NOTICED = 30.0
"""Seconds of clock difference that are warned of."""


def check_gitlab(installation: Installation) -> Iterator[Line]:
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


def require_gitlab(installation: Installation) -> None:
    """Raise Unchecked if GitLab does not answer, which another check already reports."""
    try:
        installation.gitlab.connection()
    except Refusal as error:
        raise Unchecked("GitLab does not answer") from error


def check_read_token(installation: Installation) -> Iterator[Line]:
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


def check_write_token(installation: Installation) -> Iterator[Line]:
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
    require_gitlab(installation)
    return installation.gitlab.reader() if client.role == "read" else installation.gitlab.writer()


def _check_expiry(name: str, variable: str, account: Account, now: float) -> Iterator[Line]:
    if not account.expires:
        return
    days = _count_days(account.expires, now)
    if days < SOON:
        when = "today" if days <= 0 else "tomorrow" if days == 1 else f"in {days} days"
        advice = f"rotate it in GitLab, and set {variable} to what it gives you"
        yield report_warning(name, f"it expires {when} ({account.expires})", advice)


def _count_days(day: str, now: float) -> int:
    try:
        return (date.fromisoformat(day) - datetime.fromtimestamp(now, UTC).date()).days
    except ValueError:
        return SOON


def _format_scopes(account: Account) -> str:
    return ", ".join(sorted(account.scopes or ())) or "none"


def _describe_account(account: Account) -> str:
    scopes = "" if account.scopes is None else f", scopes {_format_scopes(account)}"
    until = f", until {account.expires}" if account.expires else ""
    return f"@{account.username}{scopes}{until}"


def check_gitlab_clock(installation: Installation) -> Iterator[Line]:
    """Check that GitLab's clock and ours agree, as signatures of webhooks and of S3 require."""
    require_gitlab(installation)
    ahead = installation.gitlab.connection().ahead
    if ahead is None:
        raise Unchecked("GitLab told no time")
    yield compare_clocks("clock", "GitLab", ahead)


def compare_clocks(name: str, whose: str, ahead: float) -> Line:
    """Make a line about the difference between two clocks; `ahead` is in seconds."""
    if abs(ahead) < _NOTICED:
        return report_good(name, f"within {max(1, round(abs(ahead)))} s of {whose}'s")
    direction = "behind" if ahead > 0 else "ahead of"
    finding = f"this machine's clock is {abs(ahead):.0f} s {direction} {whose}'s"
    advice = "let both keep time by NTP: signatures that are 5 minutes off are refused"
    return (report_failed if abs(ahead) >= SKEW else report_warning)(name, finding, advice)
