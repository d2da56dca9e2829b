"""What the bot does in GitLab about a red branch, with the write token: its own issues, made once
and edited in place, and jobs that run again."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from worker.answer.finish import finish_body
from worker.errors import ForgeError
from worker.gitlab.ports import IncidentWriter, IssueText
from worker.gitlab.write.api import (
    LATE,
    SETTLE,
    Json,
    WriteClient,
    get_author_id,
    get_id,
    read_field,
)
from worker.safety.markdown import Marker, find_marker
from worker.verdict.facts import parse_time

log = logging.getLogger("sandpiper.forge")

PAGES, PER_PAGE = 5, 20
"""The newest `PAGES * PER_PAGE` issues of ours are searched for a marker."""

SAFE_TITLE = "A branch is red"
KEPT_BACK = (
    "**The text of this issue is kept back.** It did not pass the last check of what may be posted."
)
_COPY = "This issue was made twice: the older one with this title is kept up to date."


_REFUSED = (403, 404)


class GitLabIncidents:
    """The IncidentWriter of a GitLab instance. Safe to share by threads."""

    def __init__(self, client: WriteClient, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def retry_job(self, project_id: int, job_id: int) -> int | str:
        """See IncidentWriter. GitLab makes a new job; it answers 403 if the job was run again
        already, if nobody may run it, or if the bot may not."""
        what = f"job {job_id}, to be run again"
        try:
            made = self._client.post(f"/projects/{project_id}/jobs/{job_id}/retry", what, {})
        except ForgeError as error:
            if error.status not in _REFUSED:
                raise
            return str(error)
        return get_id(made)

    def put_issue(self, project_id: int, issue: IssueText, iid: int = 0) -> int:
        """See IncidentWriter."""
        if iid:
            found = self._read(project_id, iid)
            if found is None or not self._is_ours(found, issue.marker):
                log.info("issue %d of project %d is left to people", iid, project_id)
                return iid
        else:
            found = self._find_oldest(project_id, issue.marker)
        if found is None:
            if issue.is_over:
                return 0
            found = self._create_once(project_id, issue)
        self._update(project_id, found, issue)
        return get_id(found, "iid")

    def _read(self, project_id: int, iid: int) -> Json | None:
        """Return an issue, None if it is gone or not shown to us."""
        try:
            found = self._client.get(f"/projects/{project_id}/issues/{iid}", f"issue {iid}")
        except ForgeError as error:
            if error.status != 404:
                raise
            return None
        get_id(found, "iid")
        return dict(found)

    def _is_ours(self, found: Json, marker: Marker) -> bool:
        is_own = get_author_id(found) == self._client.get_user()[0]
        text = str(found.get("description") or "")
        return is_own and find_marker(text) == marker and found.get("moved_to_id") is None

    def _find_oldest(self, project_id: int, marker: Marker) -> Json | None:
        found = self._list_marked(project_id, marker)
        return min(found, key=lambda each: get_id(each, "iid"), default=None)

    def _list_marked(self, project_id: int, marker: Marker) -> Iterator[Json]:
        # GitLab's search does not look into comments, where the marker stands.
        query: Json = {"author_id": self._client.get_user()[0], "scope": "all"}
        query |= {"order_by": "created_at", "sort": "desc"}
        path, what = f"/projects/{project_id}/issues", f"the issues of project {project_id}"
        for each in self._client.list_pages(path, what, "issues", PAGES, PER_PAGE, query):
            if self._is_ours(each, marker):
                yield each

    # --------------------------------------------------------------------------------- writing

    def _create_once(self, project_id: int, issue: IssueText) -> Json:
        """Make an issue. If the answer is lost, look for it before trying once more; if another
        worker has made one meanwhile, the older one stays."""
        try:
            made = self._create(project_id, issue)
        except ForgeError as error:
            if not error.transient:
                raise
            found = self._look_for_late(project_id, issue.marker, error)
            made = found or self._create(project_id, issue)
        try:
            oldest = self._find_oldest(project_id, issue.marker) or made
            self._close_copies(project_id, issue.marker, get_id(oldest, "iid"))
        except ForgeError as error:  # two issues are better than none
            log.warning("issue of project %d: whether it was made twice: %s", project_id, error)
            return made
        return oldest

    def _look_for_late(self, project_id: int, marker: Marker, error: ForgeError) -> Json | None:
        for pause in SETTLE if error.status in LATE else SETTLE[:1]:
            self._sleep(pause)
            if found := self._find_oldest(project_id, marker):
                return found
        return None

    def _create(self, project_id: int, issue: IssueText) -> Json:
        fields: Json = {"title": issue.title, "description": issue.body}
        if issue.is_confidential:
            fields["confidential"] = True
        what = f"an issue in project {project_id}"
        made = self._client.post(f"/projects/{project_id}/issues", what, fields)
        iid = get_id(made, "iid")
        if issue.is_confidential and made.get("confidential") is not True:
            hidden = {"confidential": True, "description": f"{issue.marker.text()}\n\n{KEPT_BACK}"}
            with suppress(ForgeError):
                self._put(project_id, iid, hidden)
            raise _make_public_error(iid)
        return made

    def _update(self, project_id: int, found: Json, issue: IssueText) -> None:
        iid = get_id(found, "iid")
        if issue.is_confidential and found.get("confidential") is not True:
            # First of all, so that nobody reads the new text who may not.
            hidden = self._put(project_id, iid, {"confidential": True})
            if hidden.get("confidential") is not True:
                raise _make_public_error(iid)
        fields: Json = {}
        if str(found.get("description") or "").strip() != issue.body.strip():
            fields["description"] = issue.body
        is_closed = found.get("state") == "closed"
        if issue.is_over and not is_closed:
            fields["state_event"] = "close"
        elif is_closed and not issue.is_over and self._may_reopen(found, issue):
            fields["state_event"] = "reopen"
        if fields.get("state_event") == "close":  # the copies first: nobody comes back for them
            self._close_copies(project_id, issue.marker, iid)
        if fields:
            self._put(project_id, iid, fields)

    def _may_reopen(self, found: Json, issue: IssueText) -> bool:
        """Whether we closed it, or somebody did before this trouble began."""
        by_us = read_field(found.get("closed_by"), "id") == self._client.get_user()[0]
        closed_at = parse_time(str(found.get("closed_at") or ""))
        return by_us or (closed_at is not None and closed_at < issue.began_at)

    def _close_copies(self, project_id: int, marker: Marker, kept: int) -> None:
        """Close our other issues with the marker, and take it from them: two workers may make one
        at a time, and GitLab may carry out a POST late."""
        for each in list(self._list_marked(project_id, marker)):
            if get_id(each, "iid") > kept:
                fields = {"state_event": "close", "description": _COPY}
                self._put(project_id, get_id(each, "iid"), fields)

    def _put(self, project_id: int, iid: int, fields: Json) -> Json:
        return self._client.put(f"/projects/{project_id}/issues/{iid}", f"issue {iid}", fields)


def _make_public_error(iid: int) -> ForgeError:
    return ForgeError(
        f"issue {iid}: GitLab does not make it confidential, and more people read the project's "
        "issues than its job logs: make the bot's user a Reporter"
    )


class CheckedIncidentWriter:
    """Writes through `writer`; parts that are not allowed become plain text, or a sentence in place
    of a secret. A title that is not allowed is replaced.

    `hosts` are the places that links may lead to, besides the project.
    """

    def __init__(
        self, writer: IncidentWriter, hosts: frozenset[str], redact: Callable[[str], str]
    ) -> None:
        self._writer = writer
        self._hosts = hosts
        self._redact = redact
        self.retry_job = writer.retry_job

    def put_issue(self, project_id: int, issue: IssueText, iid: int = 0) -> int:
        """See IncidentWriter."""
        page = urlsplit(issue.page)
        hosts = self._hosts | ({page.netloc + page.path} if issue.page else set())
        finished = finish_body(issue.body, hosts, self._redact)
        body = f"{issue.marker.text()}\n\n{KEPT_BACK}" if finished.kept_back else finished.body
        title = issue.title if self._is_allowed(issue) else SAFE_TITLE
        return self._writer.put_issue(project_id, replace(issue, title=title, body=body), iid)

    def _is_allowed(self, issue: IssueText) -> bool:
        """Whether the title is one line that may stand in a note."""
        alone = f"{issue.marker.text()}\n\n{issue.title}"
        is_line = "\n" not in issue.title and 0 < len(issue.title.strip()) <= 250
        return is_line and finish_body(alone, frozenset(), self._redact).body == alone
