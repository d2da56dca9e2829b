"""Gemini's generateContent as a strict simulator over real HTTP (wire-models 3).

What the API refuses is refused here in its own words, and kept in `GeminiSim.unexpected`.
"""

from worker.demo.gemini.cache import ImplicitCache
from worker.demo.gemini.simulator import GeminiSim

__all__ = ["GeminiSim", "ImplicitCache"]
