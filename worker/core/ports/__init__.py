"""Every boundary of the worker, a module for each kind of part."""

# Plug-ins of earlier versions import it from here; what they are told is how to return a value now.
from worker.core.ports.tools import Document

__all__ = ["Document"]
