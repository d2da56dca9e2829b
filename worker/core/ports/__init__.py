"""Every boundary of the worker, except those to GitLab (`core.ports.gitlab`).

Implementations don't inherit; tables are typed.
"""

from worker.core.ports.clock import Clock
from worker.core.ports.model import Helper, HelperAnswer, Model, Reply, Request, StopReason
from worker.core.ports.sessions import (
    Claim,
    KnownFailures,
    MemoryPart,
    RecentTurns,
    SessionKey,
    SessionStore,
)
from worker.core.ports.tools import (
    GREEN,
    INSTALLED,
    OUTLINE,
    SUFFIXES,
    Captures,
    Document,
    DocumentKind,
    FailedJob,
    Ran,
    SideFile,
    Source,
    Toolbox,
)

__all__ = [
    "GREEN",
    "INSTALLED",
    "OUTLINE",
    "SUFFIXES",
    "Captures",
    "Claim",
    "Clock",
    "Document",
    "DocumentKind",
    "FailedJob",
    "Helper",
    "HelperAnswer",
    "KnownFailures",
    "MemoryPart",
    "Model",
    "Ran",
    "RecentTurns",
    "Reply",
    "Request",
    "SessionKey",
    "SessionStore",
    "SideFile",
    "Source",
    "StopReason",
    "Toolbox",
]
