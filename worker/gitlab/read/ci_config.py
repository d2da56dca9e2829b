"""`gitlab_get_ci_config`: the CI configuration as GitLab sees it, includes merged, and its lint.

GitLab resolves `include:` with the caller's rights. With the read token it would merge files of any
project that the bot can see, so the result is withheld if it includes files of a project that the
session may not read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from worker.errors import ArgumentError, SourceError
from worker.gitlab.read import repository, wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.base import RawDocument, Ref, SourceDef
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line
from worker.tools.arguments import Arguments

MAX_PROBLEMS = 100

MAX_PROJECTS = 20
"""Most projects with included files that are looked up; with more, the result is withheld."""

DEFAULT_PATH = ".gitlab-ci.yml"

_OF_NO_PROJECT = frozenset({"remote", "template"})


class CiConfig(Arguments):
    """As of when."""

    ref: Ref = ""


@dataclass(frozen=True, slots=True)
class _OwnFile:
    """A project's own configuration file, before any include is merged into it.

    `data` is None if the project has no such file.
    """

    project: str
    path: str
    data: bytes | None

    def may_include(self) -> bool:
        """Whether it may have an `include` key, perhaps written with escapes; True if in doubt."""
        if self.data is None:
            return self.path != DEFAULT_PATH
        return any(mark in self.data for mark in (b"include", b"\\", b"\0"))


def read_ci_config(args: CiConfig, reader: Reader) -> RawDocument:
    """Return the merged YAML under GitLab's errors and warnings, or the project's own file."""
    ref = args.ref or reader.subject.sha
    path = f"{reader.pipeline_project}/ci/lint"
    what = f"the CI configuration at {ref}"
    found = reader.client.one(path, wire.Lint, what, {"content_ref": ref})
    foreign = has_foreign_includes(found.includes or (), reader)
    if foreign or not names_includes(found):
        own = _read_own_file(ref, reader)
        if foreign or own.may_include():
            return _make_own_document(own, ref, found, reader)
    return _make_merged_document(found)


def _make_merged_document(found: wire.Lint) -> RawDocument:
    problems = [f"error: {each}" for each in found.errors]
    problems += [f"warning: {each}" for each in found.warnings]
    head = [f"# valid: {str(found.valid).lower()}"]
    head += [f"# {one_line(each, 2000)}" for each in problems[:MAX_PROBLEMS]]
    missing = "" if found.merged_yaml else "the merged configuration: GitLab could not make it"
    text = "\n".join([*head, found.merged_yaml or ""])
    return RawDocument(text, missing)


# ---------------------------------------------------------------------------------- other projects


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


# ------------------------------------------------------------------------------------ the own file


def _read_own_file(ref: str, reader: Reader) -> _OwnFile:
    """Return the configuration file of the project that the pipeline ran in. Raises SourceError."""
    what = "the project the pipeline ran in"
    project = reader.client.one(reader.pipeline_project, wire.Project, what)
    path = project.ci_config_path or DEFAULT_PATH
    try:
        blob = repository.read_from_project(
            reader.pipeline_project, reader, repository.check_path(path), ref
        )
    except (ArgumentError, NotFound):
        return _OwnFile(project.path_with_namespace, path, None)
    return _OwnFile(project.path_with_namespace, path, blob.head)


def _make_own_document(own: _OwnFile, ref: str, found: wire.Lint, reader: Reader) -> RawDocument:
    """Return the project's own file under comment lines that say what is not shown, and why."""
    includes = dict.fromkeys(_list_own_includes(found.includes or (), own.project))
    head = [
        "# The merged configuration and GitLab's remarks on it are withheld: what is included may",
        "# come from a project that is neither this merge request's nor listed by the operator in",
        "# sources.also_read. Files of this project: read them with gitlab_get_file.",
        *(f"# included: {one_line(each, 300)}" for each in islice(includes, MAX_PROBLEMS)),
        *(f"# {one_line(each, 2000)}" for each in _read_pipeline_errors(ref, reader)),
        f"# {one_line(own.path, 300)} as it stands:" if own.data is not None else "# no own file",
    ]
    text = "\n".join([*head, ""]).encode(errors="replace")
    missing = "the merged configuration: it includes what this session may not read"
    return RawDocument(text + (own.data or b""), missing)


def _list_own_includes(includes: tuple[wire.Include, ...], project: str) -> Iterator[str]:
    """Yield the includes of the project's own files; those of other projects' are left out."""
    for each in includes:
        if (each.context_project or "").lower() == project.lower():
            owner = _find_owner(each)
            yield f"{each.type} {each.location}" + (f" of {owner}" if owner else "")


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
    args=CiConfig,
    fetch=read_ci_config,
)
