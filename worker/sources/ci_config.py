"""`gitlab_get_ci_config`: the CI configuration as GitLab sees it, includes merged, and its lint."""

from pydantic import Field

from worker.arguments import Arguments
from worker.core.hostile import one_line
from worker.core.ports import Document, DocumentKind
from worker.sources import wire
from worker.sources.base import SourceDef
from worker.sources.reader import Reader

MAX_PROBLEMS = 100


class CiConfig(Arguments):
    """As of when."""

    ref: str = Field(
        default="",
        max_length=300,
        description="Branch, tag or commit; by default the commit the pipeline ran on.",
    )


def fetch(args: CiConfig, reader: Reader) -> Document:
    """The merged YAML under comment lines that say what is wrong with it."""
    ref = args.ref or reader.subject.sha
    path = f"{reader.pipeline_project}/ci/lint"
    what = f"the CI configuration at {ref}"
    found = reader.client.one(path, wire.Lint, what, {"content_ref": ref})
    problems = [f"error: {each}" for each in found.errors]
    problems += [f"warning: {each}" for each in found.warnings]
    head = [f"# valid: {str(found.valid).lower()}"]
    head += [f"# {one_line(each, 2000)}" for each in problems[:MAX_PROBLEMS]]
    missing = "" if found.merged_yaml else "the merged configuration: GitLab could not make it"
    text = "\n".join([*head, found.merged_yaml or ""])
    return Document(text.encode(errors="replace"), DocumentKind.TEXT, missing)


CI_CONFIG = SourceDef(
    name="gitlab_get_ci_config",
    description=(
        "The merged CI configuration (all includes and extends in one YAML) as of the pipeline's "
        "commit, headed by GitLab's own errors and warnings about it."
    ),
    args=CiConfig,
    fetch=fetch,
    note="how a job is really defined, with all includes; errors of the configuration itself",
)
