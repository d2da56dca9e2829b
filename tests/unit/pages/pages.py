"""A stored session with everything hostile in it, and an app that serves it."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.contexts import SUBJECT, call, context
from worker.conversation import context_json
from worker.conversation.context import CallCost, Context, NoteRef, Outcome, SessionKey, Status
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, ToolResult, Usage, User
from worker.jobs.verdict_days import read_days
from worker.pages.http import Pages
from worker.pages.sign_in import Signer
from worker.sessions import recent
from worker.sessions.folder import FolderStore

NOW = 1_800_000_000.0
TOKEN = "the-operators-token-0123"
HOSTILE = (
    "<script>alert(1)</script><svg onload=alert(1)><img src=x onerror=alert(1)>"
    "</pre></details></style><style>*{}</style><iframe src=//evil.example></iframe>"
    "\"'><a href=javascript:alert(1)>x</a> \u202egnirts \u2066 \x00\x1b[31m {{ 7*7 }} {% raw %}"
)
KEY = SessionKey(SUBJECT.project_id, SUBJECT.mr_iid, "0123456789abcdef0123")
OTHER = "f" * 20
ATTRIBUTES = {"class", "id", "lang", "charset", "name", "content", "href", "rel", "download"} | {
    *("aria-label", "aria-labelledby", "aria-hidden", "role", "tabindex", "scope", "start"),
    *("aria-current", "for", "type", "value", "selected", "maxlength", "placeholder", "method"),
    "autocapitalize",
    *("viewbox", "preserveaspectratio", "x", "y", "x1", "x2", "y1", "y2", "width", "height"),
}
TAGS = {
    *("html", "head", "body", "title", "style", "header", "footer", "main", "h3", "h4", "h5", "h6"),
    *("dt", "dd", "ul", "em", "strong", "sub", "hr", "code", "pre", "thead", "tbody", "tr", "br"),
    *("blockquote", "s", "summary"),
    *("meta", "p", "h1", "h2", "a", "span", "dl", "div", "nav", "li", "section", "svg", "line"),
    *("g", "rect", "details", "table", "th", "td", "article", "ol", "caption"),
}
FORM_TAGS = {"form", "label", "input", "select", "option", "button"}


class Seen(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile(turn: int = 0, size: int = 1) -> Context:
    """A turn in which every text that a stranger could have written is hostile."""
    bad = HOSTILE * size
    result = f'{{"saved_to": "/tmp/data/<b>.txt", "preview": {quoted(bad)}, "exit_code": 1}}'
    messages = (
        User(bad),
        Assistant(bad, (call("c1", bad, f'{{"command": {quoted(bad)}}}'), call("c2", "x", bad))),
        ToolResult("c1", bad, result),
        ToolResult("c2", "x", bad, is_error=True),
        Assistant(bad),
    )
    usage = Usage(100, 2000, 300, 40)
    return replace(
        context(*messages, turn_usage=TurnUsage(NOW - 60, iterations=3, context_tokens=2400)),
        subject=replace(
            SUBJECT,
            project=bad[:300],
            sha=bad,
            web_url="javascript:alert(1)",
            title=bad,
            author=bad,
        ),
        turn=turn,
        model=bad[:200],
        workflow=bad[:100],
        note=NoteRef(5, url=f"https://gitlab.example/{bad[:40]}"),
        calls=(
            CallCost(turn, bad[:50], usage, 0.01, NOW - 50, 2.0, 1),
            CallCost(turn, "m", usage, None, NOW - 40, 2.0, -1),
            CallCost(turn, "m", usage, 0.02, NOW - 30, 2.0, 4),
        ),
        usage=usage + usage,
        outcome=Outcome(Status.PARTIAL, bad, bad),
        losses=(bad,),
        redactions=((bad[:40], 2, bad[:40]),),
        note_text=f"<!-- sandpiper:session={'0' * 20} turn=0 -->\n\n{bad}"
        f"\n\n# {bad}\n\n```\n{bad}\n```"
        f"\n\n![i](https://evil.example/i.png) [j](javascript:alert(1)) [d](data:text/html,x)"
        f"\n\n<details>\n<summary>More</summary>\n\n{bad}\n\n</details>\n</details>",
        verdict=bad[:30],
        seconds=12.0,
    )


def quoted(text: str) -> str:
    return json.dumps(text)


def archive(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue())


@dataclass
class Site:
    """The pages over a folder store, at a moment that the test moves."""

    root: Path
    token: str = TOKEN
    now: float = NOW
    signer: Signer | None = None

    def __post_init__(self) -> None:
        self.signer = self.signer or Signer("a-secret-that-signs")
        self.store = FolderStore(self.root)
        self.opened = 0
        self.parked: list[str] = []
        self.pages = Pages(
            *(self._open, self._load_signer, self.token, Limits(), lambda: self.now, read_days),
            list_parked=lambda store: self.parked,
        )
        self.client = TestClient(Starlette(routes=self.pages.make_routes()))

    def _load_signer(self) -> Signer:
        assert self.signer is not None
        return self.signer

    def _open(self) -> FolderStore:
        self.opened += 1
        return self.store

    def sign(self, session: str = KEY.session_id, seconds: int = 60) -> str:
        assert self.signer is not None
        return self.signer.sign(session, int(self.now) + seconds)

    def keep(self, *turns: Context, files: Mapping[str, bytes] | None = None) -> None:
        for each in turns:
            key = each.subject.make_key(KEY.session_id)
            if files is not None:
                self.store.write_files(key, each.turn, [archive(files)])
            self.store.commit_turn(key, each.turn, context_json.dump_context(each))
            self.list(each)

    def list(self, turn: Context) -> None:
        self.list_row(recent.make_row(turn))

    def list_row(self, row: recent.Row) -> None:
        self.store.recent_turns.put_row(row.key, row.turn, row.started_at, recent.dump_row(row))
