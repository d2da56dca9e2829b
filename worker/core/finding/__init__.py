"""The model's final answer as a value, and the proof of what it quotes."""

from worker.core.failure.verdict import Verdict
from worker.core.finding.cause_proof import Claim, find_lack, mark_context
from worker.core.finding.line_numbers import correct_line_numbers
from worker.core.finding.model import CLAIMS, Evidence, Finding, HiddenPart, Unproven, WithheldPart
from worker.core.finding.parse import is_finding, parse_finding
from worker.core.finding.proof import (
    ReplyPart,
    find_unproven,
    prove_finding,
    prove_reply,
    require_evidence,
)
from worker.core.finding.quotes import Prose, scan_quotes
from worker.core.finding.sections import split_lead

__all__ = [
    "CLAIMS",
    "Claim",
    "Evidence",
    "Finding",
    "HiddenPart",
    "Prose",
    "ReplyPart",
    "Unproven",
    "Verdict",
    "WithheldPart",
    "correct_line_numbers",
    "find_lack",
    "find_unproven",
    "is_finding",
    "mark_context",
    "parse_finding",
    "prove_finding",
    "prove_reply",
    "require_evidence",
    "scan_quotes",
    "split_lead",
]
