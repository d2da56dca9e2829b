"""Every quote that was posted, checked anew against what the simulated GitLab really holds.

Nothing of the product's own proof is used: the notes are read as Markdown, the truth comes from the
simulator's records.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from worker.lab.gitlab.state import Project
from worker.lab.gitlab.world import World
from worker.logs import trace
from worker.safety.redact import Redactor

_PARSER = MarkdownIt("commonmark", {"html": True})
_LABEL = re.compile(r"(?P<place>.*?)(?:, lines? (?P<first>\d+)(?:-(?P<last>\d+))?)?")
_PLACED = re.compile(r"job \d+, lines? \d|.+, lines? \d+(?:-\d+)?$|test .+|.+ of job \d+, line")
_REDACT = Redactor()


@dataclass(frozen=True, slots=True)
class Posted:
    """A quote as a reader sees it: what it is called, where the link leads, the quoted lines."""

    label: str
    url: str
    texts: tuple[str, ...]


def posted(body: str) -> Iterator[Posted]:
    """The quotes of a note."""
    tokens = _PARSER.parse(body)
    for token in tokens:
        children = token.children or []
        end = next((at for at, each in enumerate(children) if each.type == "link_close"), 0)
        if not end or children[0].type != "link_open":
            assert not re.match(r"job \d+, lines? \d+:", token.content), f"no link: {token.content}"
            continue
        label = "".join(each.content for each in children[1:end])
        rest = children[end + 1 :]
        if not _PLACED.fullmatch(label) or not rest or rest[0].content.strip() != ":":
            continue
        code = [each.content for each in rest if each.type == "code_inline"]
        block = _block(tokens, token)
        yield Posted(label, str(children[0].attrs["href"]), tuple(code or block))


def _block(tokens: Sequence[Token], inline: Token) -> list[str]:
    """The lines of the block of code below a quote's place."""
    at = next(at for at, each in enumerate(tokens) if each is inline)
    fence = next((each for each in tokens[at + 1 : at + 3] if each.type == "fence"), None)
    return fence.content.rstrip("\n").split("\n") if fence else []


def check(
    world: World, body: str, outside: Mapping[str, Sequence[str]] | None = None
) -> list[Posted]:
    """The quotes of a note, each found true. Raises AssertionError for one that is not.

    `outside` are the lines of pages that are not GitLab's, by their addresses.
    """
    quotes = list(posted(body))
    for quote in quotes:
        found = _LABEL.fullmatch(quote.label)
        assert found is not None
        assert quote.texts, f"a place without a quote: {quote}"
        away = (outside or {}).get(quote.url)
        there = truth(world, urlsplit(quote.url).path) if away is None else away
        first = int(found["first"] or 0)
        assert int(found["last"] or first) - first in (0, len(quote.texts) - 1), quote
        span = there[first - 1 : first - 1 + len(quote.texts)] if first else there
        assert _stands(quote.texts, span, bool(first)), f"not there: {quote}, but {span[:3]}"
    return quotes


def _stands(texts: Sequence[str], there: Sequence[str], numbered: bool) -> bool:
    if not numbered:
        return all(any(text in line for line in there) for text in texts)
    return len(texts) == len(there) and all(
        text.removesuffix("…").strip() in line for text, line in zip(texts, there, strict=True)
    )


def truth(world: World, path: str) -> list[str]:
    """The lines of what stands at a link's path."""
    owner, _, rest = path.strip("/").partition("/-/")
    project = next(each for each in world.projects.values() if each.path == owner)
    kind, _, name = rest.partition("/")
    if kind == "blob":
        return _file(project, unquote(name))
    number, _, inside = name.partition("/")
    if kind == "pipelines":
        return _report(world, int(number))
    assert kind == "jobs", path
    job = world.jobs[int(number)]
    assert job.pipeline.project is project
    if inside:
        with zipfile.ZipFile(io.BytesIO(job.archive or b"")) as archive:
            content = archive.read(unquote(inside.removeprefix("artifacts/file/")))
        return _REDACT.redact_data(content).decode(errors="replace").split("\n")
    return trace.split_lines(_REDACT.redact_data(trace.clean_trace(job.trace or b"")))


def _file(project: Project, name: str) -> list[str]:
    refs = {**{sha: sha for sha in project.commits}, **project.refs}
    ref = next(each for each in refs if name.startswith(f"{each}/"))
    content = project.commits[refs[ref]][name.removeprefix(f"{ref}/")]
    return _REDACT.redact_data(content).decode(errors="replace").split("\n")


def _report(world: World, pipeline: int) -> list[str]:
    cases = [
        case for suite in world.pipelines[pipeline].test_suites for case in suite["test_cases"]
    ]
    texts = [case.get(part) or "" for case in cases for part in ("system_output", "stack_trace")]
    return "\n".join(texts).split("\n")
