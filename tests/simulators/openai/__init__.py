"""OpenAI's two wires as strict simulators over real HTTP.

What the APIs refuse is refused here in their own words, and kept in `unexpected_requests`.
"""

from tests.simulators.openai.azure import AzureChatSim, AzureResponsesSim
from tests.simulators.openai.chat import ChatSim
from tests.simulators.openai.responses import ResponsesSim

__all__ = ["AzureChatSim", "AzureResponsesSim", "ChatSim", "ResponsesSim"]
