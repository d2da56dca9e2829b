"""`/sandpiper tier` and `/sandpiper model`: what people choose for a merge request or a project.

Only configured models, and those that match `models.choosable`, may be chosen. The role of
`gitlab.tier_min_access` is required to choose what costs like the tier `deep`, to force a tier or
to undo that, and to choose for a whole project.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from worker.conversation.tiers import (
    Preference,
    TierModel,
    TierRules,
    costs_like_deep,
    list_tiers,
    resolve_tier,
)
from worker.safety.untrusted import one_line
from worker.settings.models import LEVELS, TIERS
from worker.turns.parts import Deps
from worker.turns.tiers import change_preference, read_preferences

LIST, RESET, FORCE, REASONING, PROJECT = "list", "reset", "force", "reasoning", "project"

_NO_TIERS = "There are no tiers here: the operator has configured none (`models.tiers`)."
NOT_ALLOWED = (
    "That takes more access here. To choose the tier `deep` or what costs as much, to force or "
    "free a tier, or to choose for the project takes the role in `gitlab.tier_min_access`."
)


class NotDone(Exception):
    """A comment is answered with the reason why nothing is done; `str` of it is the answer."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, on which merge request."""

    project_id: int
    mr_iid: int
    user_id: int


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a preference, whether it requires more access, and the answer."""

    apply: Callable[[Preference], Preference]
    is_costly: bool
    answer: str


# ------------------------------------------------------------------------------------------- tier


def change_tier(asker: Asker, argument: str, deps: Deps) -> str:
    """Show the tiers, or choose one: `[NAME [force] | reset] [project]`.

    Raises NotDone and SandpiperError.
    """
    if not deps.runtime.limits.tier_rules:
        return _NO_TIERS
    words, for_project = _split_words(argument)
    if not words:
        return _describe_tiers(asker, deps)
    name, forced, now = words[0].lower(), FORCE in words[1:], deps.runtime.clock.now()
    if name == RESET:
        change = _Change(
            apply=lambda before: replace(before, tier="", is_forced=False, set_at=0.0),
            is_costly=False,
            answer="No tier is chosen any more",
        )
        return _apply_change(asker, change, deps, for_project=for_project)
    if name not in TIERS:
        raise _make_unknown("tier", name, TIERS)
    model = _read_rules(asker, deps).get_model(name)
    how = ", and nothing else changes it" if forced else ""
    change = _Change(
        apply=lambda before: replace(before, tier=name, is_forced=forced, set_at=now),
        is_costly=forced or _is_costly(name, model, deps),
        answer=f"From the next turn on the tier is `{name}` ({_name_model(model)}){how}",
    )
    return _apply_change(asker, change, deps, for_project=for_project)


# ------------------------------------------------------------------------------------------ model


def change_models(asker: Asker, argument: str, deps: Deps) -> str:
    """Show the models, or choose that of a tier: `list`, or `TIER (PROVIDER/MODEL | reasoning LEVEL
    | reset) [project]`.

    Raises NotDone and SandpiperError.
    """
    words, for_project = _split_words(argument)
    if words == [LIST]:
        return _list_models(deps)
    if not deps.runtime.limits.tier_rules:
        return f"{_NO_TIERS} {_list_models(deps)}"
    if len(words) < 2:
        return _describe_tiers(asker, deps)
    change = _make_model_change(asker, words[0].lower(), words[1:], deps)
    return _apply_change(asker, change, deps, for_project=for_project)


def _make_model_change(asker: Asker, tier: str, words: Sequence[str], deps: Deps) -> _Change:
    """Return the change of a tier's model or level. Raises NotDone and ConfigError."""
    rules = _read_rules(asker, deps)
    if words[0].lower() == RESET:
        answer = f"The tier `{tier}` has its own model again"
        own = deps.runtime.limits.tier_rules.get_model(tier)

        def remove_override(before: Preference) -> Preference:
            kept = {name: each for name, each in before.overrides.items() if name != tier}
            return replace(before, overrides=kept)

        return _Change(remove_override, _is_costly(tier, own, deps), answer)
    if words[0].lower() == REASONING:
        level = words[1].lower() if len(words) > 1 else ""
        if level not in LEVELS:
            raise _make_unknown("reasoning level", level, LEVELS)
        model = replace(rules.get_model(tier), reasoning=level)
    else:
        model = TierModel(find_model(words[0], deps))
    deps.runtime.make_model(model)
    answer = f"From the next turn on the tier `{tier}` is {_name_model(model)}"
    return _Change(
        apply=lambda before: replace(before, overrides={**before.overrides, tier: model}),
        is_costly=_is_costly(tier, model, deps),
        answer=answer,
    )


def find_model(written: str, deps: Deps) -> str:
    """Return the full name of the model that a comment names. Raises NotDone if there is none.

    The provider may be left out if that is unambiguous.
    """
    offered = list(deps.runtime.choices)
    bare = [name for name in offered if name.partition("/")[2] == written]
    if written in offered or len(bare) == 1:
        return written if written in offered else bare[0]
    if "/" in written and any(fnmatchcase(written, glob) for glob in deps.runtime.choosable):
        return written
    raise _make_unknown("model", written, offered)


def _is_costly(tier: str, model: TierModel, deps: Deps) -> bool:
    """Whether a tier's model takes more access, by what the operator has configured: what people
    have chosen here makes nothing cheaper."""
    return costs_like_deep(deps.runtime.limits.tier_rules, tier, model)


def may_use_model(asker: Asker, model: str, deps: Deps) -> bool:
    """Whether `asker` may have one turn answered by `model`. Raises SourceError."""
    if not deps.runtime.limits.tier_rules or not _is_costly("", TierModel(model), deps):
        return True
    return deps.gitlab.permissions.may_choose_tier(asker.project_id, asker.user_id)


# ----------------------------------------------------------------------------------------- shared


def _apply_change(asker: Asker, change: _Change, deps: Deps, *, for_project: bool) -> str:
    before = read_preferences(asker.project_id, asker.mr_iid, deps)[for_project]
    after = change.apply(before)
    lifts_force = before.is_forced and (before.tier, True) != (after.tier, after.is_forced)
    needs_more = change.is_costly or for_project or lifts_force
    permissions = deps.gitlab.permissions
    if needs_more and not permissions.may_choose_tier(asker.project_id, asker.user_id):
        return NOT_ALLOWED
    iid = 0 if for_project else asker.mr_iid
    after = change_preference(asker.project_id, iid, change.apply, deps)
    return f"{change.answer}, for {after.where}."


def _split_words(argument: str) -> tuple[list[str], bool]:
    words = argument.split()
    for_project = bool(words) and words[-1].lower() == PROJECT
    return (words[:-1] if for_project else words), for_project


def _read_rules(asker: Asker, deps: Deps) -> TierRules:
    preferences = read_preferences(asker.project_id, asker.mr_iid, deps)
    return deps.runtime.limits.tier_rules.apply_preferences(preferences)


def describe_tier(asker: Asker, deps: Deps) -> str:
    """Return a sentence on the next turn's tier, "" if there are no tiers. Raises StoreError."""
    rules = deps.runtime.limits.tier_rules
    preferences = read_preferences(asker.project_id, asker.mr_iid, deps)
    chosen = resolve_tier(rules, "", preferences)
    if chosen is None:
        return ""
    return f"Tier: `{chosen.tier}` ({chosen.reason}), {_name_model(chosen.served_by)}."


def _describe_tiers(asker: Asker, deps: Deps) -> str:
    rules = _read_rules(asker, deps)
    lines = [f"- `{name}`: {_name_model(rules.get_model(name))}" for name in list_tiers(rules)]
    how = (
        "Choose with `/sandpiper tier NAME`, take it back with `/sandpiper tier reset`; the same "
        "with `project` at the end is for all its merge requests."
    )
    return "\n".join([describe_tier(asker, deps), "", *lines, "", how])


def _list_models(deps: Deps) -> str:
    offered = "\n".join(f"- `{name}`" for name in deps.runtime.choices)
    more = ", ".join(f"`{glob}`" for glob in deps.runtime.choosable)
    return f"Models to choose from:\n\n{offered}" + (f"\n\nAlso: {more}" if more else "")


def _name_model(model: TierModel) -> str:
    level = f", reasoning {model.reasoning}" if model.reasoning else ""
    return f"`{model.model}`{level}"


def _make_unknown(what: str, written: str, known: Sequence[str]) -> NotDone:
    near = get_close_matches(written, known, 1)
    guess = f" Did you mean `{near[0]}`?" if near else ""
    listed = ", ".join(f"`{each}`" for each in known) or "none"
    name = one_line(written.replace("`", "'"), 60)
    return NotDone(f"There is no {what} `{name}` here.{guess} There are: {listed}.")
