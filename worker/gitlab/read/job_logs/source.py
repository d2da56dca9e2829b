"""`gitlab_get_job_log`: the log of one job, cleaned."""

from worker.gitlab.read.base import OfJob, SourceDef
from worker.gitlab.read.job_logs.log_cache import SECONDS
from worker.gitlab.read.session_reader import Reader
from worker.tools.source import Document


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
