"""A strict simulator of Anthropic's Messages API over real HTTP.

See https://platform.claude.com/docs/en/api/messages. What the API refuses is refused here in the
same words and recorded in `AnthropicSim.unexpected_requests`. Tests use
`tests/simulators/anthropic/`, which serves more.
"""

from worker.lab.anthropic.simulator import AnthropicSim

__all__ = ["AnthropicSim"]
