"""`gitlab_get_ci_config`: the CI configuration as GitLab sees it, includes merged, and its lint.

GitLab resolves `include:` with the caller's rights. With the read token it would merge files of any
project that the bot can see, so the result is withheld if it includes files of a project that the
session may not read.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.base import RawDocument, Ref, SourceDef
from worker.gitlab.read.repository import check_path, read_from_project
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line
from worker.tools.arguments import Arguments

MAX_PROBLEMS = 100

MAX_PROJECTS = 20
"""Most projects with included files that are looked up; with more, the result is withheld."""

DEFAULT_PATH = ".gitlab-ci.yml"

_OF_NO_PROJECT = frozenset({"remote", "template"})


class _AsOf(Arguments):
    ref: Ref = ""


def _read_ci_config(args: _AsOf, reader: Reader) -> RawDocument:
    """Return the merged YAML under GitLab's errors and warnings, or the project's own file."""
    ref = args.ref or reader.subject.sha
    path = f"{reader.pipeline_project}/ci/lint"
    what = f"the CI configuration at {ref}"
    found = reader.client.one(path, wire.Lint, what, {"content_ref": ref})
    foreign = has_foreign_includes(found.includes or (), reader)
    if (foreign or not names_includes(found)) and (
        own := _make_own_document(ref, found, reader, in_any_case=foreign)
    ):
        return own
    problems = [f"error: {each}" for each in found.errors]
    problems += [f"warning: {each}" for each in found.warnings]
    head = [f"# valid: {str(found.valid).lower()}"]
    head += [f"# {one_line(each, 2000)}" for each in problems[:MAX_PROBLEMS]]
    missing = "" if found.merged_yaml else "the merged configuration: GitLab could not make it"
    text = "\n".join([*head, found.merged_yaml or ""])
    return RawDocument(text, missing)


def names_includes(found: wire.Lint) -> bool:
    """Whether GitLab lists the files that it merged.

    If an include fails, GitLab lists none, and its errors may be about another project's file.
    """
    return found.includes is not None if found.valid else bool(found.includes)


def has_foreign_includes(includes: tuple[wire.Include, ...], reader: Reader) -> bool:
    """Whether a merged file may be from a project that this session may not read."""
    owners = {_find_owner(each) for each in includes if each.type not in _OF_NO_PROJECT}
    if None in owners or len(owners) > MAX_PROJECTS:
        return True
    return not all(reader.may_read_path(each) for each in owners if each is not None)


def _find_owner(include: wire.Include) -> str | None:
    """Return the path of the project that an included file is in; None if it is not known."""
    match include.type:
        case "file":
            owner = include.extra.get("project")
        case "local":
            owner = include.context_project
        case "component":
            # HOST/GROUP/PROJECT/NAME@VERSION
            owner = "/".join(include.location.partition("@")[0].split("/")[1:-1])
        case _:
            owner = None
    return owner if isinstance(owner, str) and owner else None


def _make_own_document(
    ref: str, found: wire.Lint, reader: Reader, *, in_any_case: bool
) -> RawDocument | None:
    """Return the project's own file, before any include is merged into it, under comment lines that
    say what is not shown, and why. Raises SourceError.

    Unless `in_any_case`, None for a file that surely has no `include` key, also written with
    escapes.
    """
    what = "the project the pipeline ran in"
    project = reader.client.one(reader.pipeline_project, wire.Project, what)
    path, data = project.ci_config_path or DEFAULT_PATH, None
    with suppress(ArgumentError, NotFound):
        data = read_from_project(reader.pipeline_project, reader, check_path(path), ref).head
    may_include = path != DEFAULT_PATH
    if data is not None:
        may_include = any(mark in data for mark in (b"include", b"\\", b"\0"))
    if not in_any_case and not may_include:
        return None
    includes: dict[str, None] = {}
    for each in found.includes or ():
        # Those of other projects' files are left out.
        if (each.context_project or "").lower() == project.path_with_namespace.lower():
            owner = _find_owner(each)
            includes[f"{each.type} {each.location}" + (f" of {owner}" if owner else "")] = None
    head = [
        "# The merged configuration and GitLab's remarks on it are withheld: what is included may",
        "# come from a project that is neither this merge request's nor listed by the operator in",
        "# sources.also_read. Files of this project: read them with gitlab_get_file.",
        *(f"# included: {one_line(each, 300)}" for each in islice(includes, MAX_PROBLEMS)),
        *(f"# {one_line(each, 2000)}" for each in _read_pipeline_errors(ref, reader)),
        f"# {one_line(path, 300)} as it stands:" if data is not None else "# no own file",
    ]
    text = "\n".join([*head, ""]).encode(errors="replace")
    missing = "the merged configuration: it includes what this session may not read"
    return RawDocument(text + (data or b""), missing)


def _read_pipeline_errors(ref: str, reader: Reader) -> Iterator[str]:
    """Yield the pipeline's `yaml_errors`, found with its author's rights, not the bot's."""
    if ref != reader.subject.sha:
        return
    path = f"{reader.pipeline_project}/pipelines/{reader.subject.pipeline_id}"
    try:
        pipeline = reader.client.one(path, wire.Pipeline, "the pipeline")
    except SourceError:
        return
    if pipeline.yaml_errors:
        yield f"error: {pipeline.yaml_errors}"


CI_CONFIG = SourceDef(
    name="gitlab_get_ci_config",
    description=(
        "The CI configuration with all includes and extends merged, headed by GitLab's errors and "
        "warnings. If it includes what this session may not read: the project's own file."
    ),
    args=_AsOf,
    fetch=_read_ci_config,
)
