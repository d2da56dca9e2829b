"""A strict simulator of Anthropic's Messages API over real HTTP.

See https://platform.claude.com/docs/en/api/messages. What the API refuses is refused here in the
same words and recorded in `AnthropicSim.unexpected_requests`.
"""

from worker.demo.anthropic.cache import PrefixCache
from worker.demo.anthropic.simulator import AnthropicSim

__all__ = ["AnthropicSim", "PrefixCache"]
