"""Issues: making, finding, changing and closing them. See https://docs.gitlab.com/api/issues/.

Quick actions in a description are run with the author's rights, as those in notes are: they are
cut out and kept in `World.quick_actions`. No hooks are sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from worker.lab.gitlab import views
from worker.lab.gitlab.protocol import (
    PAGING,
    Answer,
    Call,
    Refused,
    Route,
    get_moment,
    make_page,
    refuse_not_found,
    refuse_strange,
)
from worker.lab.gitlab.state import Access, Project, QuickAction, User, extract_commands

Json = dict[str, Any]

TITLE_MAX, DESCRIPTION_MAX = 255, 1_048_576
_NEW = frozenset({"title", "description", "labels", "confidential"})
_CHANGED = _NEW | {"add_labels", "remove_labels", "state_event"}
_VALUES = {
    "state": ("all", "opened", "closed"),
    "scope": ("all", "created_by_me"),
    "confidential": ("", "true", "false"),
    "in": ("title,description", "title", "description"),
    "order_by": ("created_at", "updated_at"),
    "sort": ("desc", "asc"),
}


@dataclass(slots=True)
class Issue:
    """An issue of a project."""

    id: int
    iid: int
    project: Project
    author: User
    title: str
    created_at: str
    updated_at: str
    description: str = ""
    state: str = "opened"
    labels: list[str] = field(default_factory=list)
    confidential: bool = False
    closed_at: str | None = None
    closed_by: User | None = None
    moved_to_id: int | None = None

    @property
    def web_url(self) -> str:
        """Its page."""
        return f"{self.project.web_url}/-/issues/{self.iid}"


def _show(issue: Issue) -> Json:
    names = "id iid title description state labels confidential created_at updated_at closed_at"
    return {name: getattr(issue, name) for name in names.split()} | {
        "project_id": issue.project.id,
        "author": views.show_user(issue.author),
        "closed_by": views.show_user(issue.closed_by) if issue.closed_by else None,
        "moved_to_id": issue.moved_to_id,
        "type": "ISSUE",
        "issue_type": "issue",
        "web_url": issue.web_url,
        "references": {"full": f"{issue.project.path}#{issue.iid}"},
    }


class Endpoints:
    """The endpoints of one simulator, and its issues, by their projects and the order of time."""

    def __init__(self) -> None:
        self.issues: dict[int, list[Issue]] = {}
        self.count = 0

    def list_routes(self) -> tuple[Route, ...]:
        """List the routes."""
        issues = "projects/:id/issues"
        times = {f"{what}_{end}" for what in ("created", "updated") for end in ("after", "before")}
        asked = PAGING | set(_VALUES) | times | {"iids[]", "labels", "search", "author_id"}
        return (
            Route("GET", issues, self.list_issues, asked),
            Route("GET", f"{issues}/:iid", self.get_issue),
            Route("POST", issues, self.create, fields=_NEW),
            Route("PUT", f"{issues}/:iid", self.edit, fields=_CHANGED),
        )

    def list_issues(self, call: Call) -> Answer:
        """List a project's issues that the user may see, newest first by default."""
        asked = {name: call.get_value(name, values[0]) for name, values in _VALUES.items()}
        for name, value in asked.items():
            if value not in _VALUES[name]:
                refuse_strange(400, f"{name} does not have a valid value")
        owner = call.find_project()
        found = [
            each
            for each in self.issues.get(owner.id, [])
            if _may_see(call, each) and _is_asked(call, asked, each)
        ]
        found.sort(
            key=lambda each: (getattr(each, asked["order_by"]), each.id),
            reverse=asked["sort"] == "desc",
        )
        return make_page(call, [_show(each) for each in found])

    def get_issue(self, call: Call) -> Answer:
        """Return an issue by its number in the project."""
        return Answer(200, _show(self._find(call)))

    def create(self, call: Call) -> Answer:
        """Make an issue; labels that do not exist are made with it."""
        owner = call.find_project(Access.GUEST)
        if not call.world.get_access(owner, call.user) and not owner.public:
            raise Refused(403, {"message": "403 Forbidden"})
        if not call.fields.get("title"):
            refuse_strange(400, "title is missing")
        self.count += 1
        listed = self.issues.setdefault(owner.id, [])
        now = call.world.advance_clock()
        issue = Issue(self.count + 8000, len(listed) + 1, owner, call.user, "", now, now)
        _set_fields(call, issue)
        listed.append(issue)
        return Answer(201, _show(issue))

    def edit(self, call: Call) -> Answer:
        """Change an issue: its author and Reporters may."""
        issue = self._find(call)
        level = call.world.get_access(issue.project, call.user)
        if level < Access.REPORTER and issue.author is not call.user:
            raise Refused(403, {"message": "403 Forbidden"})
        if not call.fields:
            refuse_strange(400, "title, description, … are missing, at least one is needed")
        _set_fields(call, issue)
        issue.updated_at = call.world.advance_clock()
        if event := call.fields.get("state_event"):
            states = {"close": "closed", "reopen": "opened"}
            if event not in states:
                refuse_strange(400, "state_event does not have a valid value")
            issue.state = states[event]
            issue.closed_at = issue.updated_at if event == "close" else None
            issue.closed_by = call.user if event == "close" else None
        return Answer(200, _show(issue))

    def _find(self, call: Call) -> Issue:
        owner, number = call.find_project(), call.get_number("iid")
        found = (each for each in self.issues.get(owner.id, []) if each.iid == number)
        issue = next(found, None)
        if issue is None or not _may_see(call, issue):
            refuse_not_found("Issue")
        return issue


def _may_see(call: Call, issue: Issue) -> bool:
    """Whether the user may see the issue: a confidential one is for Reporters and its author."""
    level = call.world.get_access(issue.project, call.user)
    return not issue.confidential or level >= Access.REPORTER or issue.author is call.user


def _is_asked(call: Call, asked: Mapping[str, str], issue: Issue) -> bool:
    """Whether the issue is one that the query asks for."""
    labels = set(filter(None, call.get_value("labels").split(",")))
    texts = [getattr(issue, name).lower() for name in asked["in"].split(",")]
    checks = [
        asked["state"] in ("all", issue.state),
        asked["scope"] == "all" or issue.author is call.user,
        asked["confidential"] in ("", str(issue.confidential).lower()),
        call.get_value("author_id") in ("", str(issue.author.id)),
        str(issue.iid) in call.query.get("iids[]", [str(issue.iid)]),
        labels <= set(issue.labels),
        any(call.get_value("search").lower() in text for text in texts),
    ]
    for what in ("created", "updated"):
        seen = datetime.fromisoformat(getattr(issue, f"{what}_at"))
        after, before = (get_moment(call, f"{what}_{end}") for end in ("after", "before"))
        checks.append((after is None or seen >= after) and (before is None or seen <= before))
    return all(checks)


def _set_fields(call: Call, issue: Issue) -> None:
    """Set the fields that are given, as GitLab checks them."""
    title, text = call.fields.get("title"), call.fields.get("description")
    for name, value, most in (("title", title, TITLE_MAX), ("description", text, DESCRIPTION_MAX)):
        if value is not None and not isinstance(value, str):
            refuse_strange(400, f"{name} is invalid")
        if value and len(value) > most:
            wrong = f"is too long (maximum is {most} characters)"
            raise Refused(400, {"message": {name: [wrong]}})
    issue.title = title or issue.title
    if text is not None:
        issue.description, ran = extract_commands(text)
        call.world.quick_actions += [QuickAction(*each, call.user.username, 0) for each in ran]
    issue.confidential = bool(call.fields.get("confidential", issue.confidential))
    gone = _split(call.fields.get("remove_labels", ""))
    kept = issue.labels
    if "labels" in call.fields:
        kept = _split(call.fields["labels"])
    kept = [*kept, *_split(call.fields.get("add_labels", ""))]
    issue.labels = [each for each in dict.fromkeys(kept) if each not in gone]


def _split(labels: Any) -> list[str]:
    """Return the labels of a list, or of a text with commas."""
    parts = labels.split(",") if isinstance(labels, str) else labels
    return [str(each).strip() for each in parts if str(each).strip()]
