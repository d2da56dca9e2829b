"""The endpoints of the token itself, and of the projects that it may see."""

from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import PAGING, Answer, Call, Route, make_page, refuse_strange
from worker.lab.gitlab.state import Token


def get_own_token(call: Call) -> Answer:
    """Return the token itself."""
    return Answer(200, _show_token(call.token))


def _show_token(record: Token) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "scopes": list(record.scopes),
        "user_id": record.user.id,
        "active": record.active,
        "expires_at": record.expires_at,
    }


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
    if wanted := call.get_value("archived"):
        found = [each for each in found if each.archived == (wanted == "true")]
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
    Route("GET", "personal_access_tokens/self", get_own_token, any_scope=True),
    Route("GET", "projects", list_projects, PAGING | frozenset(_VALUES)),
)
