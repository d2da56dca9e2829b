"""`gitlab_get_job_log`: the log of one job, cleaned."""

from pydantic import Field

from worker.arguments import Arguments
from worker.core.ports import Document
from worker.sources.base import SourceDef
from worker.sources.job_logs.log_cache import SECONDS
from worker.sources.session_reader import Reader


class JobLog(Arguments):
    """Which job."""

    job_id: int = Field(gt=0, description="The job's id, from gitlab_list_pipeline_jobs.")


def fetch(args: JobLog, reader: Reader) -> Document:
    """The log as text."""
    return reader.logs.document(args.job_id)


JOB_LOG = SourceDef(
    name="gitlab_get_job_log",
    description=(
        "The log of one job without colours, section marks and timestamps. Line numbers are "
        "those of the file, so that grep -n gives numbers you can quote."
    ),
    args=JobLog,
    fetch=fetch,
    note="the log of a job; quote it by job id and line number (grep -n)",
    timeout=SECONDS,
)
