"""The endpoints of users, and of the projects that a token may see."""

from worker.demo.gitlab import views
from worker.demo.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Route,
    make_page,
    refuse_not_found,
    refuse_strange,
)


def get_user(call: Call) -> Answer:
    """Return a user; everybody may see `bot`."""
    found = call.world.users.get(call.get_number("user"))
    if found is None:
        refuse_not_found("User")
    return Answer(200, views.show_user(found) | {"bot": found.bot, "bio": "", "job_title": ""})


def list_projects(call: Call) -> Answer:
    """List the projects the token may see.

    With `membership=true`, list only those that its user is a member of.
    """
    for name, values in _VALUES.items():
        if call.get_value(name, values[0]) not in values:
            refuse_strange(400, f"{name} does not have a valid value")
    found = [
        each
        for each in call.world.projects.values()
        if call.world.get_access(each, call.user)
        or (each.public and call.get_value("membership") != "true")
    ]
    if call.get_value("sort", "desc") == "desc":
        found.reverse()
    return make_page(call, [views.show_project(each) for each in found])


_VALUES = {
    "membership": ("false", "true"),
    "archived": ("false", "true"),
    "order_by": ("created_at", "id"),
    "sort": ("desc", "asc"),
}

ROUTES: tuple[Route, ...] = (
    Route("GET", "users/:user", get_user),
    Route("GET", "projects", list_projects, PAGING | frozenset(_VALUES)),
)
