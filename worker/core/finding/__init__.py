"""The model's final answer as a value, and the proof of what it quotes (law 5)."""

from worker.core.failure.verdict import Verdict
from worker.core.finding.model import CLAIMS, Evidence, Finding, KeptBack, Unproven
from worker.core.finding.parse import is_finding, parse
from worker.core.finding.proof import Checked, backed, check, failures, prove
from worker.core.finding.quotes import Prose, scan
from worker.core.finding.reply import Said, said
from worker.core.finding.sections import split_lead

__all__ = [
    "CLAIMS",
    "Checked",
    "Evidence",
    "Finding",
    "KeptBack",
    "Prose",
    "Said",
    "Unproven",
    "Verdict",
    "backed",
    "check",
    "failures",
    "is_finding",
    "parse",
    "prove",
    "said",
    "scan",
    "split_lead",
]
