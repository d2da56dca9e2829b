"""Anthropic's Messages API as a strict simulator over real HTTP (wire-models 1).

What the API refuses is refused here in its own words, and kept in `AnthropicSim.unexpected`.
"""

from worker.demo.anthropic.cache import PrefixCache
from worker.demo.anthropic.simulator import AnthropicSim

__all__ = ["AnthropicSim", "PrefixCache"]
