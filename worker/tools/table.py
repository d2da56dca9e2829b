"""The table of all tools. A new tool is a file and a row here."""

from typing import Any

from worker.tools import fetch, sandbox_exec
from worker.tools.base import ToolDef

TOOLS: tuple[ToolDef[Any], ...] = (sandbox_exec.TOOL, fetch.FETCH, fetch.FETCH_BATCH)
