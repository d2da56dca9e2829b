"""Gemini's generateContent as a strict simulator over real HTTP.

What the API refuses is refused here in its own words, and kept in `GeminiSim.unexpected_requests`.
"""

from tests.simulators.gemini.cache import ImplicitCache
from tests.simulators.gemini.simulator import GeminiSim

__all__ = ["GeminiSim", "ImplicitCache"]
