"""A cheap model begins and a stronger one goes on, through the whole product, over every wire."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.flow.product import Product, product
from tests.flow.test_folds import FAR_APART, FINDING, LOG, WIRES, lead_to
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.lab.script import Answer, Asked, Call, Say, Script

pytestmark = pytest.mark.usefixtures("bubblewrap")

UNCLEAR = """\
## Verdict
Unknown

## Cause
The logs show no cause.

## Evidence
- job 500003 line 1658: E       AssertionError: assert [] == ['23:50']
"""

MODELS = {
    "anthropic": ("anthropic/claude-haiku-5-5", "anthropic/claude-opus-5-5"),
    "gemini": ("gemini/gemini-3.8-flash", "gemini/gemini-4-argon"),
    "responses": ("openai/gpt-6-luna", "openai/gpt-6-sol"),
    "chat": ("openai-compatible/qwen3", "openai-compatible/qwen3-big"),
}


def give_up_then_find() -> Script:
    """The first model gives up at once; the next one reads the log and quotes it."""
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        step = next(number)
        if step == 0:
            return Say(UNCLEAR)
        if step == 1:
            fetch = {
                "source": "gitlab_get_job_log",
                "arguments": {"job_id": 500003},
                "path": LOG,
            }
            return Call([("fetch_to_sandbox", fetch)])
        return Say(FINDING if step == 2 else "Because of the seasons.")

    return answer


def configure(told: Product, wire: str, extra: str = "") -> None:
    lead_to(told, wire, 100_000, "")
    small, big = MODELS[wire]
    tiers = {
        "balanced": {"model": small, "reasoning": "low"},
        "smart": {"model": big, "reasoning": "high"},
    }
    models = {"tiers": tiers, "default": small}
    if extra:
        models["helper"] = extra
    told.env["SANDPIPER_MODEL"] = small
    told.write_settings(yaml.safe_dump({"models": models}))


def read_newest(told: Product) -> Context:
    return context_json.load_context(told.objects("context.json")[-1].read_bytes())


@pytest.mark.parametrize("wire", FAR_APART)
def test_what_stays_unclear_goes_to_the_stronger_model(wire: str, tmp_path: Path) -> None:
    small, big = MODELS[wire]
    with product(tmp_path, give_up_then_find(), "memory://", WIRES[wire][0]) as told:
        configure(told, wire)
        done = told.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 0, done.stderr
        ended = read_newest(told)
        assert ended.outcome
        assert (ended.outcome.status, ended.verdict) == (Status.DONE, "caused by this change")
        assert [each.model for each in ended.calls] == [small, big, big]
        assert [each.reasoning for each in ended.calls] == ["low", "high", "high"]
        assert ended.tier
        assert (ended.tier.tier, ended.tier.reason) == ("smart", "raised: unclear")
        (note,) = told.notes()
        assert "(smart, high)" in note.body
        assert "line 1658" in note.body
        assert told.model.unexpected_requests == []
        # A reply goes on with the same model, whose cache knows the conversation.
        done = told.run("reply", ended.session_id, "Why?")
        assert done.returncode == 0, done.stderr
        assert read_newest(told).model == big


def find_then_answer() -> Script:
    """A finding, an answer without a tool, and one for which another model calls a tool."""
    fetch = {"source": "gitlab_get_job_log", "arguments": {"job_id": 500003}, "path": LOG}
    steps: Iterator[Answer] = iter(
        (
            Call([("fetch_to_sandbox", fetch)]),
            Say(FINDING),
            Say("Because of the seasons."),
            Call([("sandbox_exec", {"command": "grep -n 23:50 /tmp/data/*"})]),
            Say("As that line says."),
        )
    )
    return lambda asked: next(steps)


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_has_a_model_of_its_own_until_it_needs_a_tool(wire: str, tmp_path: Path) -> None:
    small, big = MODELS[wire]
    with product(tmp_path, find_then_answer(), "memory://", WIRES[wire][0]) as told:
        lead_to(told, wire, 100_000, "")
        told.env["SANDPIPER_MODEL"] = big
        told.write_settings(yaml.safe_dump({"models": {"reply": {"model": small}}}))
        with told.serve() as process:
            told.pipeline_failed()
            for count, text in enumerate(("Why?", "Why not in winter?", ""), 1):
                process.until(lambda: len(told.objects("context.json")) == count, "no note")  # noqa: B023
                if text:
                    root = told.notes()[0].discussion_id
                    told.gitlab.comment(told.scene.mr, told.scene.author, text, root)
        ended = read_newest(told)
        assert [each.model for each in ended.calls] == [big, big, small, small, big]
        assert [each.tier for each in ended.calls] == ["", "", "reply", "reply", ""]
        assert ended.outcome
        assert (ended.outcome.status, ended.outcome.text) == (Status.DONE, "As that line says.")
        small_name, big_name = (each.partition("/")[2] for each in (small, big))
        bodies = [note.body for note in told.notes()]
        assert f"`{small_name}` (reply)" in bodies[1]
        assert f"`{big_name}`" in bodies[2]
        assert f"reply: {small}" in bodies[2]
        # What the models are told stays as it is, byte for byte; only the limit is another.
        for name in ("system", "tools", "systemInstruction", "system_instruction", "instructions"):
            told_once = {json.dumps(each.get(name)) for each in told.model.requests}
            assert len(told_once) == 1, name
        assert told.model.unexpected_requests == []


def test_a_tier_is_chosen_on_the_merge_request(tmp_path: Path) -> None:
    script: Callable[[Asked], Answer] = lambda asked: Say(UNCLEAR)  # noqa: E731
    with product(tmp_path, script, "memory://") as told:
        configure(told, "anthropic")
        with told.serve() as process:
            told.gitlab.comment(told.scene.mr, told.scene.author, "/sandpiper tier smart")
            process.until(lambda: told.notes(), "the command is not answered")
            assert "the tier is `smart`" in told.notes()[0].body
            told.pipeline_failed()
            process.until(lambda: told.objects("context.json"), "there is no note")
        ended = read_newest(told)
        assert ended.tier
        assert ended.tier.reason == "chosen for this merge request"
        (request,) = told.model.requests
        assert request["model"] == "claude-opus-5-5"


def test_a_wrong_tier_is_refused_at_start(tmp_path: Path) -> None:
    with product(tmp_path, give_up_then_find(), "memory://") as told:
        configure(told, "anthropic")
        page = told.folder / "sandpiper.yaml"
        page.write_text(page.read_text().replace("high", "huge"))
        done = told.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 2
        assert "models.tiers.smart.reasoning" in done.stderr
        page.write_text(page.read_text().replace("huge", "minimal"))
        done = told.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 2
        assert "claude-opus-5-5" in done.stderr
        assert "high" in done.stderr
