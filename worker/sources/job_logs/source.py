"""`gitlab_get_job_log`: the log of one job, cleaned."""

from worker.core.ports.tools import Document
from worker.sources.base import OfJob, SourceDef
from worker.sources.job_logs.log_cache import SECONDS
from worker.sources.session_reader import Reader


def fetch(args: OfJob, reader: Reader) -> Document:
    """Return the log as text."""
    return reader.logs.read_log(args.job_id).make_document()


JOB_LOG = SourceDef(
    name="gitlab_get_job_log",
    description=(
        "A job's log without colours, section marks and timestamps. Quote it with the file's line "
        "numbers (`grep -n`)."
    ),
    args=OfJob,
    fetch=fetch,
    timeout=SECONDS,
)
