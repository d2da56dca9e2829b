"""Whether GitLab answers, what the two tokens may, and whether the clocks agree."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

from worker.doctor.base import Line, Patient, Unchecked, failed, good, warning
from worker.doctor.gitlab import Account, Client, Refusal

OLDEST = (16, 11)
"""The oldest GitLab that tells a comment from its edit (wire-gitlab 2.4)."""

SOON = 14
"""Days before its end from which a token's expiry is a warning."""

SKEW = 300.0
"""Seconds from which signed webhooks are refused (wire-gitlab 1.2)."""

_NOTICED = 30.0


def reachable(patient: Patient) -> Iterator[Line]:
    """GitLab answers, and is not too old."""
    reached, url = patient.gitlab.reached(), patient.settings.gitlab.url
    if not reached.version:
        yield good("reachable", f"{url} answers; it tells its version only to a valid token")
        return
    told = f"GitLab {reached.version} at {url}"
    match = re.match(r"(\d{1,4})\.(\d{1,4})", reached.version)
    if match and (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield warning("reachable", f"{told} is older than {oldest}", "upgrade GitLab")
    else:
        yield good("reachable", told)


def need_gitlab(patient: Patient) -> None:
    """Raises Unchecked where GitLab does not answer: one line about that is enough."""
    try:
        patient.gitlab.reached()
    except Refusal as error:
        raise Unchecked("GitLab does not answer") from error


def read_token(patient: Patient) -> Iterator[Line]:
    """It is valid, may read, and may not write."""
    name, client = "read token", patient.gitlab.read
    account = _account(patient, client)
    if account.scopes is not None and not account.scopes & {"read_api", "api"}:
        advice = "make one with the scope read_api, and set GITLAB_READ_TOKEN"
        yield failed(name, f"its scopes are {_scopes(account)}: it may not read the API", advice)
        return
    yield from _expiry(name, "GITLAB_READ_TOKEN", account, patient.now())
    if account.scopes and "api" in account.scopes:
        advice = (
            "set GITLAB_READ_TOKEN to one with the scope read_api alone: what the model reads with "
            "should not be able to write"
        )
        yield warning(name, f"@{account.username}: it may write too (scope api)", advice)
    else:
        yield good(name, _told(account))


def write_token(patient: Patient) -> Iterator[Line]:
    """It is valid, may write notes, and nobody's own."""
    name, client = "write token", patient.gitlab.write
    account = _account(patient, client)
    if account.scopes is not None and "api" not in account.scopes:
        advice = "make one with the scope api, and set GITLAB_WRITE_TOKEN"
        yield failed(name, f"its scopes are {_scopes(account)}: it may not write notes", advice)
        return
    yield from _expiry(name, "GITLAB_WRITE_TOKEN", account, patient.now())
    if account.scopes and account.scopes & {"sudo", "admin_mode"}:
        advice = "set GITLAB_WRITE_TOKEN to one with the scope api alone"
        yield warning(name, f"its scopes are {_scopes(account)}: more than notes need", advice)
    if account.bot:
        yield good(name, _told(account))
    else:
        advice = (
            "use the token of a project, of a group or of a service account, unless the account is "
            "Sandpiper's own: notes stand under its name"
        )
        yield warning(name, f"@{account.username} is not a bot", advice)


def _account(patient: Patient, client: Client) -> Account:
    if not client.token:
        scope = "read_api" if client.role == "read" else "api"
        raise Refusal(f"there is none: set GITLAB_{client.role.upper()}_TOKEN (scope {scope})")
    need_gitlab(patient)
    return patient.gitlab.reader() if client.role == "read" else patient.gitlab.writer()


def _expiry(name: str, variable: str, account: Account, now: float) -> Iterator[Line]:
    if not account.expires:
        return
    left = _days(account.expires, now)
    if left < SOON:
        when = "today" if left <= 0 else "tomorrow" if left == 1 else f"in {left} days"
        advice = f"rotate it in GitLab, and set {variable} to what it gives you"
        yield warning(name, f"it expires {when} ({account.expires})", advice)


def _days(day: str, now: float) -> int:
    try:
        return (date.fromisoformat(day) - datetime.fromtimestamp(now, UTC).date()).days
    except ValueError:
        return SOON


def _scopes(account: Account) -> str:
    return ", ".join(sorted(account.scopes or ())) or "none"


def _told(account: Account) -> str:
    scopes = "" if account.scopes is None else f", scopes {_scopes(account)}"
    until = f", until {account.expires}" if account.expires else ""
    return f"@{account.username}{scopes}{until}"


def clock(patient: Patient) -> Iterator[Line]:
    """GitLab's clock and ours agree: signatures of webhooks and of S3 depend on it."""
    need_gitlab(patient)
    ahead = patient.gitlab.reached().ahead
    if ahead is None:
        raise Unchecked("GitLab told no time")
    yield clock_line("clock", "GitLab", ahead)


def clock_line(name: str, whose: str, ahead: float) -> Line:
    """What a difference of so many seconds means."""
    if abs(ahead) < _NOTICED:
        return good(name, f"within {max(1, round(abs(ahead)))} s of {whose}'s")
    direction = "behind" if ahead > 0 else "ahead of"
    told = f"this machine's clock is {abs(ahead):.0f} s {direction} {whose}'s"
    advice = "let both keep time by NTP: signatures that are 5 minutes off are refused"
    return (failed if abs(ahead) >= SKEW else warning)(name, told, advice)
