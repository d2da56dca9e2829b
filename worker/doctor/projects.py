"""Which projects are served, and whether the bot may comment there."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from worker.doctor.base import Line, Patient, Unchecked, failed, good, warning
from worker.doctor.gitlab import Project, Refusal
from worker.doctor.tokens import need_gitlab

MOST = 20
"""Projects that are looked at one by one."""

SECONDS, FIXING = 12.0, 540.0
"""For all of them: the rest is left out, and said to be. The second is where webhooks are made."""

_NAMED = 5
_REPORTER = 20
_LEVELS = {10: "Guest", 15: "Planner", 20: "Reporter", 30: "Developer", 40: "Maintainer"}


def served(patient: Patient) -> Sequence[Project]:
    """The projects that are visible and on the list. Raises Unchecked."""
    need_gitlab(patient)
    if not patient.gitlab.read.token:
        raise Unchecked("there is no read token")
    try:
        seen = patient.gitlab.projects()
    except Refusal as error:
        raise Unchecked("the projects cannot be listed") from error
    globs = patient.settings.gitlab.projects
    return [each for each in seen if not globs or _fits(each, globs)]


def _fits(project: Project, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(project.path.lower(), glob.lower()) for glob in globs)


def visible(patient: Patient) -> Iterator[Line]:
    """The read token's user is a member of something that is on the list."""
    if not patient.gitlab.read.token:
        raise Unchecked("there is no read token")
    need_gitlab(patient)
    globs = patient.settings.gitlab.projects
    try:
        seen = patient.gitlab.projects()
    except Refusal as error:
        if error.status == 401:
            raise Unchecked("the read token is refused") from error
        raise
    found = [each for each in seen if not globs or _fits(each, globs)]
    listed = f"of gitlab.projects ({', '.join(globs[:_NAMED])})" if globs else "at all"
    if not found:
        advice = "make the bot a member of the projects or their group, or correct gitlab.projects"
        yield failed("projects", f"the read token sees no project {listed}", advice)
        return
    for glob in globs:
        if not any(_fits(each, [glob]) for each in seen):
            advice = "make the bot a member there, or take it out of gitlab.projects"
            yield warning("projects", f"nothing visible is named {glob}", advice)
    served = "visible" if globs else "served, the bot's memberships, as gitlab.projects is empty"
    yield good("projects", f"{len(found)} {served}: {names(found)}")


def names(projects: Sequence[Project]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(each.path for each in projects[:_NAMED])
    more = len(projects) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def looked_at(patient: Patient, *, all_of_them: bool = False) -> Iterator[Project]:
    """The projects that there is time to look at one by one."""
    until = patient.monotonic() + (FIXING if all_of_them else SECONDS)
    for project in served(patient)[: None if all_of_them else MOST]:
        if patient.monotonic() > until:
            return
        yield project


def role(patient: Patient) -> Iterator[Line]:
    """The write token's user may comment on the merge requests."""
    if not patient.gitlab.write.token:
        raise Unchecked("there is no write token")
    need_gitlab(patient)
    try:
        me = patient.gitlab.writer()
    except Refusal as error:
        raise Unchecked("the write token's user is not known") from error
    able: list[tuple[int, Project]] = []
    low: list[Project] = []
    for project in looked_at(patient):
        level = _level(patient, project, me.user_id)
        if level >= _REPORTER:
            able.append((level, project))
        else:
            low.append(project)
    if low:
        advice = f"make @{me.username} a Reporter (or Developer) there"
        yield failed("role", f"@{me.username} may not comment in {names(low)}", advice)
    if able:
        least, _ = min(able, key=lambda each: each[0])
        told = _LEVELS.get(least, "Owner")
        count = f"{len(able)} of {len(served(patient))} projects"
        yield good("role", f"@{me.username} is {told} or more in {count}")
    elif not low:
        raise Unchecked("there is no project to look at")


def _level(patient: Patient, project: Project, user: int) -> int:
    path = f"/projects/{project.id}/members/all/{user}"
    try:
        found = patient.gitlab.write.ask("get", path, f"the role in {project.path}").value
    except Refusal as error:
        if error.status in (403, 404):
            return 0
        raise
    level = found.get("access_level") if isinstance(found, dict) else 0
    return level if isinstance(level, int) else 0


def notes(patient: Patient) -> Iterator[Line]:
    """Where notes are internal, because job logs are for members and merge requests are not."""
    found = [each for each in served(patient) if each.internal]
    if not found:
        yield good("notes", "whoever reads a merge request may open its job logs")
        return
    told = f"notes are internal, as job logs are for members only, in {names(found)}"
    advice = "for notes that all can read, turn on project-based pipeline visibility there"
    yield warning("notes", told, advice)
