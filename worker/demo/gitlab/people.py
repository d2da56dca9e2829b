"""The endpoints of accounts, and of the projects one is a member of."""

from worker.demo.gitlab import views
from worker.demo.gitlab.protocol import PAGING, Answer, Call, Route, not_found, paged, strange


def user(call: Call) -> Answer:
    """An account; `bot` is for everybody to see."""
    found = call.world.users.get(call.number("user"))
    if found is None:
        not_found("User")
    return Answer(200, views.user(found) | {"bot": found.bot, "bio": "", "job_title": ""})


def projects(call: Call) -> Answer:
    """The projects the token may see, or is a member of."""
    for name, values in _VALUES.items():
        if call.one(name, values[0]) not in values:
            strange(400, f"{name} does not have a valid value")
    found = [
        each
        for each in call.world.projects.values()
        if call.world.access(each, call.user) or (each.public and call.one("membership") != "true")
    ]
    if call.one("sort", "desc") == "desc":
        found.reverse()
    return paged(call, [views.project(each) for each in found])


_VALUES = {
    "membership": ("false", "true"),
    "archived": ("false", "true"),
    "order_by": ("created_at", "id"),
    "sort": ("desc", "asc"),
}

ROUTES: tuple[Route, ...] = (
    Route("GET", "users/:user", user),
    Route("GET", "projects", projects, PAGING | frozenset(_VALUES)),
)
