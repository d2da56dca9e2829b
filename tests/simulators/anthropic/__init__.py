"""The simulated Messages API of the tests: the demo's (`worker/lab/anthropic/`), and much more.

That is faults, the list of models, Vertex AI's path, Amazon Bedrock, and which thinking each model
accepts.
"""

from tests.simulators.anthropic.bedrock import BedrockSim
from tests.simulators.anthropic.simulator import AnthropicSim

__all__ = ["AnthropicSim", "BedrockSim"]
