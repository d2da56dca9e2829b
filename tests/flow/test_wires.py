"""The main job once over every wire: the same story, the same note."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import KEY, Product, product
from tests.google_tokens import TokenServer
from tests.simulators.anthropic import AnthropicSim, BedrockSim
from tests.simulators.anthropic.signatures import Account
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import AzureChatSim, AzureResponsesSim, ChatSim, ResponsesSim
from worker.lab import story

pytestmark = pytest.mark.usefixtures("bubblewrap")


@dataclass(frozen=True)
class Wire:
    """A model, its simulator, and the variables that lead to it. VERTEX needs Google's tokens,
    BEDROCK Amazon's credentials; a ROW is what the settings say of the provider besides its URL."""

    model: str
    simulator: Callable[..., AbstractContextManager[Any]]
    url: str = ""
    key: str = ""
    vertex: bool = False
    bedrock: bool = False
    row: str = ""


AZURE = "AZURE_OPENAI_API_KEY"
WIRES = [
    Wire("gemini/gemini-4-argon", GeminiSim, "GEMINI_BASE_URL", "GEMINI_API_KEY"),
    Wire("openai/gpt-6-sol", ResponsesSim, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    Wire("openai-responses/gpt-6-sol", ResponsesSim, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    Wire("openai-compatible/qwen3", ChatSim, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    Wire("gemini-vertex/gemini-4-argon", GeminiSim, vertex=True),
    Wire("anthropic-vertex/claude-sonnet-5-5", AnthropicSim, vertex=True),
    Wire("openai-azure/gpt-6.2-sol", AzureResponsesSim, "AZURE_OPENAI_ENDPOINT", AZURE),
    Wire("anthropic-bedrock/eu.anthropic.claude-sonnet-5-5", BedrockSim, bedrock=True),
    Wire("my-vllm/qwen3", ChatSim, key="MY_KEY", row="api: openai-chat, key_env: MY_KEY"),
    Wire(
        "our-azure/gpt-5.5",
        AzureChatSim,
        key="MY_KEY",
        row="api: openai-chat, auth: azure, api_version: '2024-10-21', key_env: MY_KEY",
    ),
]


def told_over(wire: Wire, folder: Path) -> AbstractContextManager[Product]:
    # Google's tokens are made while the test runs, and Amazon's signatures are of no key.
    key = "" if wire.vertex or wire.bedrock else KEY
    return product(folder, story.make_script(), "memory://", wire.simulator, key)


def point(told: Product, wire: Wire, tokens: TokenServer) -> None:
    """Lead the product to the wire's simulator and to no other model."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        del told.env[name]
    told.env["SANDPIPER_MODEL"] = wire.model
    if wire.vertex:
        account = tokens.account(told.folder / "account.json")
        told.env |= {
            "GOOGLE_APPLICATION_CREDENTIALS": str(account),
            "GOOGLE_CLOUD_PROJECT": "flow-project",
        }
    if wire.bedrock:
        signer = Account()
        told.env |= {
            "AWS_ACCESS_KEY_ID": signer.key_id,
            "AWS_SECRET_ACCESS_KEY": signer.secret,
            "AWS_REGION": "eu-central-1",
        }
    if wire.key:
        told.env[wire.key] = KEY
    if wire.url:
        told.env[wire.url] = told.model.url
    else:
        provider, fields = wire.model.partition("/")[0], f", {wire.row}" if wire.row else ""
        told.write_settings(
            f"models: {{providers: {{{provider}: {{base_url: '{told.model.url}'{fields}}}}}}}\n"
        )


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.model)
def test_the_story_is_the_same_over_every_wire(wire: Wire, tmp_path: Path) -> None:
    with TokenServer() as tokens, told_over(wire, tmp_path) as told:
        point(told, wire, tokens)
        with told.serve() as serve:
            told.pipeline_failed()
            serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
            (note,) = told.notes()
            assert "Caused by this change" in note.body
            assert "assert [] == ['23:50']" in note.body
            assert f"`{wire.model.partition('/')[2]}`" in note.body
            told.gitlab.comment(
                told.scene.mr, told.scene.author, story.QUESTION, note.discussion_id
            )
            serve.until(lambda: len(told.objects("context.json")) == 2, "no second turn")
        assert "1581 passed and 2 failed" in told.notes()[1].body
        assert told.model.unexpected_requests == []
        assert told.gitlab.unexpected_requests == []


def test_a_session_begun_under_one_provider_is_asked_further_under_another(
    tmp_path: Path,
) -> None:
    with product(tmp_path, story.make_script(), "memory://") as told:
        begun = told.run("analyze", "northsound/ferrytimes!1", "--dry-run")
        assert begun.returncode == 0, begun.stderr
        session = told.objects("context.json")[0].parent.parent.name
        with GeminiSim(story.make_script(), key=KEY) as gemini:
            told.env |= {"GEMINI_BASE_URL": gemini.url, "GEMINI_API_KEY": KEY}
            asked = told.run("reply", session, story.QUESTION, "--model", "gemini/gemini-4-argon")
            assert asked.returncode == 0, asked.stderr
            assert "[Window(start=1380, end=1500)]" in asked.stdout
            assert "`gemini-4-argon`" in asked.stdout
            assert gemini.unexpected_requests == []
