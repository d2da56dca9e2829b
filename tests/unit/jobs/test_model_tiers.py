"""The tier of a turn, from the failed pipeline or a comment to the stored turn."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contexts import call
from tests.fakes import Answer, ScriptedModel, says
from tests.jobs import FINDING, WORKFLOW, Job, Ran
from tests.simulators.gitlab import Access, GitLabSim
from worker.conversation.context import Status
from worker.conversation.limits import Limits
from worker.conversation.messages import ToolResult, User
from worker.conversation.model import Model, StopReason
from worker.conversation.prompts import TAKEOVER
from worker.conversation.tiers import TierModel, TierRules
from worker.errors import ConfigError, HandedOver, ModelError
from worker.jobs.commands import CommandAnswered
from worker.models.built_in_models import BUILT_IN
from worker.settings.models import Signal
from worker.settings.playbook import Playbook
from worker.turns.parts import Finished
from worker.wiring.model_lists import find_price

pytestmark = pytest.mark.slow

UNCLEAR = says("## Verdict\nunknown\n\n## Cause\nNobody knows.\n")
UNPROVEN = says("## Verdict\nflaky\n\n## Cause\nA race.\n\n## Evidence\n- job 1 line 9: made up\n")
BROKEN = replace(says(""), stop=StopReason.MALFORMED)
RULES = TierRules(
    {
        "balanced": TierModel("t/small", "medium"),
        "smart": TierModel("t/middle", "high"),
        "deep": TierModel("u/big", "xhigh"),
    },
    TierModel("test/model"),
    upgrade=frozenset({Signal.UNPROVEN, Signal.UNCLEAR, Signal.MALFORMED}),
)
WITH_TOOL = WORKFLOW.model_copy(update={"tools": ("look", "set_tier")})


@dataclass
class Tiers:
    """A job with models of several tiers; `made` are those that were opened, in order."""

    job: Job
    rules: TierRules = RULES
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    made: list[TierModel] = field(default_factory=list)
    playbook: Playbook = field(default_factory=lambda: Playbook([WITH_TOOL]))
    choosable: tuple[str, ...] = ()
    makes_all: bool = False

    def __post_init__(self) -> None:
        for name in ("t/small", "t/middle", "u/big"):
            self.models[name] = ScriptedModel([], name=name, binds_thinking=name == "u/big")

    def make(self, wanted: TierModel) -> Model:
        if self.makes_all:
            return ScriptedModel([], name=wanted.model)
        if wanted.model not in self.models:
            raise ConfigError(f"{wanted.model}: unknown provider")
        self.made.append(wanted)
        return self.models[wanted.model]

    def answers(self, name: str, *answers: Answer) -> ScriptedModel:
        model = self.models[name]
        model.answers = [*model.answers[: len(model.requests)], *answers]
        return model

    def parts(self) -> dict[str, Any]:
        choices = {name: (lambda each=each: each) for name, each in self.models.items()}
        return {
            "limits": Limits(50, 100_000, 900.0, 10.0, tier_rules=self.rules),
            "make_model": self.make,
            "choices": choices,
            "choosable": self.choosable,
            "playbook": self.playbook,
        }

    def fails(self) -> Ran:
        return self.job.run_failed(**self.parts())

    def says(self, text: str, thread: str = "", **options: Any) -> Ran:
        return self.job.run_comment(self.job.write_comment(text, thread, **options), **self.parts())

    def asks(self, text: str, **options: Any) -> str:
        ended = self.says(text, **options)
        assert isinstance(ended, CommandAnswered)
        return ended.text


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> Tiers:
    return Tiers(Job(sim, tmp_path))


def make_maintainer(at: Tiers) -> dict[str, Any]:
    user = at.job.sim.add_user("lead", "Lead Maintainer")
    at.job.sim.add_member(at.job.scene.project, user, Access.MAINTAINER)
    return {"author": user}


# ----------------------------------------------------------------------------------- of one turn


def test_a_turn_is_taken_by_its_tier_and_stores_why(at: Tiers) -> None:
    at.answers("t/small", says("", call("c1")), FINDING)
    assert isinstance(at.fails(), Finished)
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.tier, stored.tier.reason) == ("balanced", "the default")
    assert stored.model == "t/small"
    assert [(each.tier, each.reasoning) for each in stored.calls] == [("balanced", "medium")] * 2
    assert set(at.made) == {TierModel("t/small", "medium")}
    assert "balanced, medium" in at.job.list_notes()[0].body


def test_without_tiers_nothing_is_stored_and_no_tool_is_announced(at: Tiers) -> None:
    at.rules = TierRules()
    at.job.script_answers(FINDING)
    at.fails()
    key = at.job.list_sessions()[0]
    data = json.loads(at.job.store.read_context(key, 0))
    assert "tier" not in data
    assert not {"tier", "reasoning"} & set(data["calls"][0])
    assert [tool["function"]["name"] for tool in data["tools"]] == ["look"]


def test_an_unclear_answer_lets_the_stronger_model_go_on(at: Tiers) -> None:
    at.answers("t/small", says("", call("c1")), UNCLEAR)
    stronger = at.answers("t/middle", FINDING)
    ended = at.fails()
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.tier, stored.tier.reason) == ("smart", "raised: unclear")
    assert [each.model for each in stored.calls] == ["t/small", "t/small", "t/middle"]
    assert (stored.model, stored.gave_way) == ("t/middle", "")
    # It has the whole conversation, and is told why.
    (request,) = stronger.requests
    said = request.messages[-1]
    assert isinstance(said, User)
    assert "found no cause" in said.text
    assert len(request.messages) == len(stored.messages) - 1
    assert "smart, high" in at.job.list_notes()[0].body


def test_an_answer_that_stays_unproven_is_repaired_first(at: Tiers) -> None:
    at.answers("t/small", UNPROVEN, UNPROVEN)
    at.answers("t/middle", UNPROVEN, FINDING)
    at.fails()
    stored = at.job.load_context()
    assert stored.tier is not None
    assert stored.tier.reason == "raised: unproven"
    # The stronger model has a chance of its own to repair.
    assert [each.model for each in stored.calls] == ["t/small"] * 2 + ["t/middle"] * 2
    assert stored.verdict == "flaky"


def test_there_is_one_switch_in_a_turn(at: Tiers) -> None:
    at.answers("t/small", UNCLEAR)
    at.answers("t/middle", UNCLEAR)
    assert isinstance(at.fails(), Finished)
    assert at.models["u/big"].requests == []


def test_the_tier_stays_raised_in_the_session(at: Tiers) -> None:
    at.answers("t/small", UNCLEAR)
    at.answers("t/middle", FINDING)
    at.fails()
    (root,) = at.job.list_notes()
    at.answers("t/middle", says("Because."))
    assert isinstance(at.says("Why is that so?", root.discussion_id), Finished)
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.turn, stored.tier.tier) == (1, "smart")
    assert stored.tier.reason == "raised earlier in this conversation"


def test_where_the_stronger_model_fails_the_first_answer_stands(at: Tiers) -> None:
    at.answers("t/small", UNCLEAR)
    at.answers("t/middle", ModelError("t/middle: 529"))
    ended = at.fails()
    assert isinstance(ended, Finished)
    assert (ended.outcome.status, ended.outcome.text) == (Status.DONE, UNCLEAR.text)


def test_two_broken_answers_raise_before_the_next_request(at: Tiers) -> None:
    at.answers("t/small", BROKEN, BROKEN)
    at.answers("t/middle", FINDING)
    at.fails()
    stored = at.job.load_context()
    assert stored.tier is not None
    assert stored.tier.reason == "raised: malformed"
    assert stored.verdict == "flaky"
    said = at.models["t/middle"].requests[0].messages[-1]
    assert isinstance(said, User)
    assert said.text.startswith(TAKEOVER)
    assert "broken or empty" in said.text


def test_who_goes_on_because_of_code_is_told_after_the_results(at: Tiers) -> None:
    """Also by a worker that takes the run over before the first request to it."""
    at.rules = replace(
        RULES,
        models={**RULES.models, "coding": TierModel("t/middle", "high")},
        upgrade=frozenset({Signal.CODE}),
    )
    trace = call("c1", "look", json.dumps({"saw": "Traceback (most recent call last)"}))
    at.answers("t/small", says("", trace))
    stronger = at.answers("t/middle", FINDING)

    def die(iteration: int) -> None:
        if iteration == 2:
            raise HandedOver("the worker ends")

    at.job.on_asking = die
    with pytest.raises(HandedOver):
        at.fails()
    at.job.on_asking = lambda iteration: None
    assert isinstance(at.fails(), Finished)
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.tier, stored.tier.reason) == ("coding", "raised: code")
    (request,) = stronger.requests
    (said,) = (
        each for each in request.messages if isinstance(each, User) and TAKEOVER in each.text
    )
    assert "has come to code" in said.text
    assert isinstance(request.messages[request.messages.index(said) - 1], ToolResult)


def test_the_log_names_the_tiers_model_and_level(
    at: Tiers, caplog: pytest.LogCaptureFixture
) -> None:
    at.answers("t/small", UNCLEAR)
    at.answers("t/middle", FINDING)
    with caplog.at_level("INFO", "sandpiper"):
        at.fails()
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    lines = [line for line in said if line.startswith("tier")]
    assert lines == [
        "tier balanced: t/small, medium (the default)",
        "tier smart: t/middle, high (raised: unclear)",
    ]


def test_no_switch_when_the_budget_is_nearly_used(at: Tiers) -> None:
    at.answers("t/small", replace(says("", call("c1")), cost_usd=7.5), UNCLEAR)
    assert isinstance(at.fails(), Finished)
    assert at.models["t/middle"].requests == []


def test_the_model_may_ask_for_a_stronger_one(at: Tiers) -> None:
    asked = call("c1", "set_tier", '{"tier": "deep"}')
    at.answers("t/small", says("", asked, call("c2")))
    at.answers("u/big", says("", call("c3", "set_tier", '{"tier": "deep"}')), FINDING)
    at.fails()
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.tier, stored.tier.reason) == ("deep", "asked for by the model")
    results = {each.call_id: each for each in stored.messages if isinstance(each, ToolResult)}
    assert not results["c1"].is_error
    assert "a stronger model goes on" in results["c1"].content
    assert "once in this turn" in results["c3"].content
    assert [each.model for each in stored.calls] == ["t/small", "u/big", "u/big"]
    # It is of this conversation alone.
    assert at.asks("/sandpiper tier").startswith("Tier: `balanced`")


def test_a_forced_tier_is_raised_by_nothing(at: Tiers) -> None:
    lead = make_maintainer(at)
    at.asks("/sandpiper tier balanced force", **lead)
    asked = says("", call("c1", "set_tier", '{"tier": "deep"}'))
    at.answers("t/small", BROKEN, BROKEN, asked, UNCLEAR)
    at.fails()
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.tier, stored.tier.is_locked) == ("balanced", True)
    assert {each.model for each in stored.calls} == {"t/small"}


def test_a_workflows_tier_goes_before_what_people_choose(at: Tiers) -> None:
    at.playbook = Playbook([WITH_TOOL.model_copy(update={"model_tier": "smart"})])
    at.asks("/sandpiper tier balanced")
    at.answers("t/middle", FINDING)
    at.fails()
    assert at.job.load_context().model == "t/middle"


def test_a_run_that_is_taken_over_keeps_its_tier(at: Tiers) -> None:
    at.answers("t/small", BROKEN, BROKEN)
    stronger = at.answers("t/middle", says("", call("c1")), FINDING)

    def die(iteration: int) -> None:
        if iteration == 4:
            raise HandedOver("the worker ends")

    at.job.on_asking = die
    with pytest.raises(HandedOver):
        at.fails()
    assert len(stronger.requests) == 1
    at.job.on_asking = lambda iteration: None
    at.asks("/sandpiper tier balanced")
    assert isinstance(at.fails(), Finished)
    stored = at.job.load_context()
    assert stored.tier is not None
    assert (stored.tier.reason, stored.model) == ("raised: malformed", "t/middle")
    assert [each.model for each in stored.calls] == ["t/small"] * 2 + ["t/middle"] * 2


# ------------------------------------------------------------------------------ what people choose


def test_a_developer_chooses_a_tier_and_takes_it_back(at: Tiers) -> None:
    said = at.asks("/sandpiper tier smart")
    assert said == (
        "From the next turn on the tier is `smart` (`t/middle`, reasoning high), "
        "for this merge request."
    )
    at.answers("t/middle", FINDING)
    at.fails()
    assert at.job.load_context().model == "t/middle"
    assert "Tier: `smart` (chosen for this merge request)" in at.asks("/sandpiper status")
    at.asks("/sandpiper tier reset")
    assert "Tier: `balanced` (the default)" in at.asks("/sandpiper tier")


@pytest.mark.parametrize(
    "command",
    [
        "tier deep",
        "tier smart force",
        "tier smart project",
        "model smart u/big",
        "model smart reasoning xhigh",
        "model smart reset project",
        "model u/big",
    ],
)
def test_what_costs_more_takes_more_access(at: Tiers, command: str) -> None:
    assert "takes more access" in at.asks(f"/sandpiper {command}")
    assert list(at.job.store.records.list_names("preferences/")) == []
    at.answers("u/big", FINDING)
    ended = at.says(f"/sandpiper {command}", **make_maintainer(at))
    assert isinstance(ended, Finished) or "more access" not in getattr(ended, "text", "")


PRICED = TierRules(
    {
        "balanced": TierModel("anthropic/claude-haiku-5-5"),
        "smart": TierModel("anthropic/claude-sonnet-5-5"),
        "deep": TierModel("anthropic/claude-opus-5-5"),
    },
    TierModel("anthropic/claude-haiku-5-5"),
    find_price=partial(find_price, BUILT_IN),
)
OTHER_NAMES = [
    *("anthropic/claude-opus-5-5", "claude-opus-5-5", "anthropic-vertex/claude-opus-5-5"),
    *("anthropic/claude-opus-5-5-20260901", "anthropic-vertex/claude-opus-5-5@20260901"),
    *("anthropic/claude-opus-5-5-fast", "anthropic/claude-opus-5-5:latest", "x/claude-opus-5-5"),
    *("anthropic/CLAUDE-OPUS-5-5", "Anthropic/claude-opus-5-5", "ANTHROPIC/Claude-Opus-5-5"),
    *("openai-compatible/anthropic/claude-opus-5-5", "anthropic//claude-opus-5-5"),
    *("anthropic/claude-\u043epus-5-5", "anthropic/\uff43laude-opus-5-5", "anthropic/opus"),
    *("anthropic/claude-opus-5-5\u200b", "anthropic/claude-opus\u20115-5", "anthropic/./x"),
    *("anthropic/claude-opus-5-5#", "anthropic/claude-opus-5-5?x", "anthropic/claude-opus-latest"),
    *("anthropic/claude-fable-5-1", "anthropic/claude-mythos-5-1", "openai/nobody-knows"),
]


@pytest.mark.attack("commands")
@pytest.mark.parametrize("by_member", [False, True], ids=["plain", "after an override"])
def test_no_other_spelling_chooses_what_costs_like_deep(
    at: Tiers, record_property: Callable[[str, object], None], by_member: bool
) -> None:
    at.rules, at.choosable, at.makes_all = PRICED, ("*", "*/*"), True
    if by_member:
        # What somebody with more access has chosen here makes nothing cheaper for others.
        lead = make_maintainer(at)
        at.asks("/sandpiper model smart anthropic/claude-opus-5-5", **lead)
        at.asks("/sandpiper model deep anthropic/claude-haiku-5-5", **lead)
    commands = [f"model {tier} {name}" for tier in ("balanced", "smart") for name in OTHER_NAMES]
    commands += [f"model {name}" for name in OTHER_NAMES]
    commands += ["tier deep", "tier DEEP", "tier  Deep ", "tier \uff44eep", "model DEEP reset"]
    commands += [
        "model deep reset",
        "tier deep\u200b",
        "model smart reasoning MAX",
        "tier dee\u0440",
    ]
    commands += ["tier smart"] if by_member else []
    names = list(at.job.store.records.list_names("preferences/"))
    before = {name: at.job.store.records.read(name, 1 << 20) for name in names}
    for command in commands:
        said = at.asks(f"/sandpiper {command}")
        assert "takes more access" in said or "There is no" in said, command
    assert {name: at.job.store.records.read(name, 1 << 20) for name in names} == before
    assert list(at.job.store.records.list_names("preferences/")) == names
    record_property("tried", len(commands))


def test_what_is_known_to_be_cheaper_is_chosen_by_a_developer(at: Tiers) -> None:
    at.rules, at.choosable, at.makes_all = PRICED, ("*/*",), True
    for name in ("anthropic/claude-haiku-5-5", "anthropic/claude-haiku-4-5-20251001"):
        assert f"`{name}`" in at.asks(f"/sandpiper model smart {name}")


def test_a_forced_tier_is_lifted_only_with_more_access(at: Tiers) -> None:
    lead = make_maintainer(at)
    at.asks("/sandpiper tier smart force", **lead)
    for command in ("tier reset", "tier balanced"):
        assert "takes more access" in at.asks(f"/sandpiper {command}")
    assert "No tier is chosen" in at.asks("/sandpiper tier reset", **lead)


def test_another_model_and_level_for_a_tier(at: Tiers) -> None:
    at.asks("/sandpiper model balanced t/middle")
    at.asks("/sandpiper model balanced reasoning low")
    at.answers("t/middle", FINDING)
    at.fails()
    stored = at.job.load_context()
    assert stored.tier is not None
    assert stored.tier.served_by == TierModel("t/middle", "low")
    assert "has its own model again" in at.asks("/sandpiper model balanced reset")
    assert "`balanced`: `t/small`, reasoning medium" in at.asks("/sandpiper model")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tier smrt", "There is no tier `smrt` here. Did you mean `smart`?"),
        ("model smart t/midle", "There is no model `t/midle` here. Did you mean `t/middle`?"),
        ("model smart reasoning hihg", "Did you mean `high`?"),
        ("model smal", "There is no model `smal` here."),
        ("model list", "- `t/small`\n- `t/middle`"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(at: Tiers, command: str, told: str) -> None:
    assert told in at.asks(f"/sandpiper {command}")


def test_a_model_may_be_named_without_its_provider_and_by_a_glob(at: Tiers) -> None:
    at.answers("t/middle", FINDING)
    assert isinstance(at.says("/sandpiper model middle"), Finished)
    assert at.job.load_context().model == "t/middle"
    assert at.job.load_context().tier is None
    at.choosable = ("v/*",)
    assert "v/new: unknown provider" in at.asks("/sandpiper model smart v/new")
    at.models["v/new"] = ScriptedModel([], name="v/new")
    assert "`v/new`" in at.asks("/sandpiper model smart v/new")


def test_without_tiers_the_commands_say_so(at: Tiers) -> None:
    at.rules = TierRules()
    assert "no tiers here" in at.asks("/sandpiper tier smart")
    assert "no tiers here" in at.asks("/sandpiper model smart t/small")
    assert "- `t/small`" in at.asks("/sandpiper model list")


def test_a_projects_choice_holds_for_its_merge_requests_and_is_not_forgotten(at: Tiers) -> None:
    lead = make_maintainer(at)
    at.asks("/sandpiper tier smart project", **lead)
    at.asks("/sandpiper tier balanced")
    assert "chosen for this merge request" in at.asks("/sandpiper tier")
    at.asks("/sandpiper forget")
    assert "Tier: `smart` (chosen for this project)" in at.asks("/sandpiper tier")


def test_a_damaged_choice_costs_nothing(at: Tiers) -> None:
    project, mr = at.job.scene.project.id, at.job.scene.mr.iid
    at.job.store.records.create(f"preferences/{project}/{mr}.json", b"\xff{")
    at.answers("t/small", FINDING)
    assert isinstance(at.fails(), Finished)
    assert at.job.load_context().model == "t/small"
