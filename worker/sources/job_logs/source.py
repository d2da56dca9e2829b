"""`gitlab_get_job_log`: the log of one job, cleaned."""

from worker.core.ports import Document
from worker.sources.base import OfJob, SourceDef
from worker.sources.job_logs.log_cache import SECONDS
from worker.sources.session_reader import Reader


def fetch(args: OfJob, reader: Reader) -> Document:
    """Return the log as text."""
    return reader.logs.read_log(args.job_id).make_document()


JOB_LOG = SourceDef(
    name="gitlab_get_job_log",
    description=(
        "The log of one job without colours, section marks and timestamps. Line numbers are "
        "those of the file, so that grep -n gives numbers you can quote."
    ),
    args=OfJob,
    fetch=fetch,
    note="the log of a job; quote it by job id and line number (grep -n)",
    timeout=SECONDS,
)
