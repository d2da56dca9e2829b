"""The commands that comments may give, built in (`COMMANDS`) and by workflow files: Markdown with a
YAML front matter, whose fields CONTRIBUTING.md explains."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from worker.errors import ConfigError
from worker.safety.sentences import suggest_nearest
from worker.safety.untrusted import one_line
from worker.settings.base import say_form
from worker.settings.models import TierName
from worker.settings.runs import ContextSettings, GateChoice, PlanChoice
from worker.settings.validation import Place, validate
from worker.settings.yaml_text import (
    Problem,
    Spot,
    Unreadable,
    explain_unreadable,
    find_spot,
    read_yaml,
    refuse,
)

SMALL_WINDOW = 16_000
"""With less room than this for a request (in tokens), a workflow takes its compact form."""

_FENCE = "---\n"
_SMALL = re.compile(r"^<!-- small -->[ \t]*$", re.MULTILINE)
"""The line before the text for small windows."""

_COMMAND = "command:"
COMMANDS = {
    "analyze": "look at the newest failed pipeline of this merge request",
    "help": "show this list",
    "status": "say what is running or was found",
    "stop": "end what is running, with what was found so far",
    "model NAME": "look at the failure again with another model; `model list` names them",
    "tier [NAME]": "show or choose how strong a model answers on this merge request",
    "forget": "delete what is stored of this merge request's conversations",
}
"""How each built-in command of comments is written, and what it does."""

COMMAND_NAMES = frozenset(name.partition(" ")[0] for name in COMMANDS)
_RESERVED = COMMAND_NAMES - {"analyze"} | {"unknown"}
_OPTIONAL = ("konflux_", "testing_farm_")
"""Prefixes of tools that workflows may name even if their sources are not configured."""
_HINT = " (CONTRIBUTING.md, *Adding a workflow*, lists the fields)"


def _check_command(trigger: str) -> str:
    if trigger.removeprefix(_COMMAND) in _RESERVED:
        raise ValueError("expected another name, since there is a command of this one already")
    return trigger


Trigger = Annotated[
    str,
    Field(
        pattern=r"^(pipeline_failed|command:[a-z0-9][a-z0-9-]{0,31})$",
        examples=["pipeline_failed", "command:analyze"],
        json_schema_extra=say_form(
            "expected pipeline_failed, or command:NAME in lower case, digits and dashes"
        ),
    ),
    AfterValidator(_check_command),
]


class Workflow(BaseModel):
    """One workflow. `tools` are name globs; `text` goes verbatim into the system prompt.

    `model_tier` overrides what people prefer, but not what they force; `plan` and `gate` override
    the settings `loop.plan` and `loop.gate`, `context` those fields of the settings that it names.
    A `compact` workflow has short descriptions of the tools and short previews, and `small_text`
    in place of `text`, if there is one. It announces only `small_tools`, if there are any; the
    others may still be called and fetched. With `find_tool`, too, only `small_tools` are announced,
    and a tool that finds the others. `lead_steps` says whether the first step of a plan is taken
    for the model, which is then reminded of the next; None means only in compact workflows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$",
        json_schema_extra=say_form("expected a name of lower case, digits and dashes"),
    )
    description: str
    triggers: tuple[Trigger, ...] = ()
    max_iterations: int | None = Field(default=None, ge=1, le=1000)
    tools: tuple[str, ...] = ("*",)
    model_tier: TierName | None = None
    context: ContextSettings = ContextSettings()
    plan: PlanChoice | None = None
    gate: GateChoice | None = None
    compact: bool = False
    small_tools: tuple[str, ...] = ()
    find_tool: bool = False
    lead_steps: bool | None = None
    text: SkipJsonSchema[str] = Field(min_length=1)
    small_text: SkipJsonSchema[str] = ""

    def allows(self, tool: str) -> bool:
        """Whether the workflow allows the tool of this name."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def announces(self, tool: str) -> bool:
        """Whether the model is told of the tool of this name."""
        few = (self.compact or self.find_tool) and self.small_tools
        patterns = self.small_tools if few else self.tools
        return self.allows(tool) and any(fnmatchcase(tool, pattern) for pattern in patterns)

    @property
    def leads(self) -> bool:
        """Whether the model is led through the plan step by step."""
        return self.compact if self.lead_steps is None else self.lead_steps

    @property
    def has_find_tool(self) -> bool:
        """Whether the model uses `find_tool` to find the tools that are not announced."""
        return self.find_tool and bool(self.small_tools)

    def fit(self, room: int) -> "Workflow":
        """Return the workflow for models with `room` tokens for a request."""
        if room >= SMALL_WINDOW and not self.compact:
            return self
        return self.model_copy(update={"compact": True, "text": self.small_text or self.text})


class Playbook:
    """All workflows of one folder, read once."""

    def __init__(self, workflows: Iterable[Workflow]) -> None:
        self._by_name: Mapping[str, Workflow] = {one.name: one for one in workflows}

    def fit(self, room: int) -> "Playbook":
        """Return the workflows for models with `room` tokens for a request."""
        return Playbook(workflow.fit(room) for workflow in self.workflows())

    def shorten_tool_lists(self) -> "Playbook":
        """Return the workflows with short lists of tools, and `find_tool` for the others."""
        return Playbook(
            workflow.model_copy(update={"find_tool": True}) for workflow in self.workflows()
        )

    def workflows(self) -> Iterable[Workflow]:
        """Return all workflows, in the order of their files' names."""
        return self._by_name.values()

    def get(self, name: str) -> Workflow:
        """Return the workflow of this name. Raises ConfigError with the known names."""
        if name not in self._by_name:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise ConfigError(f"there is no workflow {name!r}; known: {known}")
        return self._by_name[name]

    def commands(self) -> Mapping[str, str]:
        """Return the descriptions of the workflows' commands, by the command's name."""
        return {
            trigger.removeprefix(_COMMAND): workflow.description
            for workflow in reversed(list(self._by_name.values()))
            for trigger in workflow.triggers
            if trigger.startswith(_COMMAND)
        }

    def for_trigger(self, trigger: str) -> Workflow:
        """Return the workflow that names `trigger`. Raises ConfigError if there is none."""
        for workflow in self._by_name.values():
            if trigger in workflow.triggers:
                return workflow
        raise ConfigError(f"no workflow has {trigger!r} among its triggers")


def parse(text: str, where: str, tools: Collection[str] = ()) -> Workflow:
    """Parse a workflow file's text. Raises ConfigError with a line for each problem, which names
    `where`, its line and the field. `tools` are the names that its tools may have, if they are
    known."""
    workflow, problems = _parse(text, where, tools)
    refuse(problems)
    assert workflow is not None  # nothing was wrong
    return workflow


def load(folder: str, tools: Collection[str] = ()) -> Playbook:
    """Load every *.md of `folder`; "" means the workflows that come with Sandpiper. `tools` are as
    in `parse`. Raises ConfigError, which tells what is wrong with all of them."""
    path = Path(folder) if folder else find_bundled_folder()
    files = sorted(path.glob("*.md"))
    if not files:
        why = "no workflow files (*.md) here" if path.is_dir() else "no such folder"
        raise ConfigError(f"{path}: {why}; check `workflows:`")
    workflows, problems = list[Workflow](), list[Problem]()
    named: dict[str, Path] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            said = f"cannot be read: {explain_unreadable(error)}"
            problems.append(Problem(str(file), said))
            continue
        workflow, wrong = _parse(text, str(file), tools)
        problems += wrong
        workflows += [workflow] if workflow else []
        if workflow and named.setdefault(workflow.name, file) is not file:
            said = f"{named[workflow.name].name} has the name {workflow.name!r} too"
            problems.append(Problem(str(file), said, ("name",)))
    refuse(problems)
    return Playbook(workflows)


def _parse(text: str, where: str, tools: Collection[str]) -> tuple[Workflow | None, list[Problem]]:
    text = text.replace("\r\n", "\n")
    head, fence, body = text.removeprefix(_FENCE).partition("\n" + _FENCE)
    if not text.startswith(_FENCE) or not fence:
        return None, [Problem(where, "expected a front matter between two lines of ---", line=1)]
    try:
        document = read_yaml(head, where, above=1)
    except Unreadable as error:
        return None, [error.problem]
    fields = document.tree
    if not isinstance(fields, dict):
        said = "expected fields such as name: between the lines of ---"
        return None, [Problem(where, said, line=2)]
    problems = list(document.problems)
    for name in ("text", "small_text"):
        if fields.pop(name, None) is not None:
            spot = find_spot(document.spots, (name,), where)
            said = "does not belong here: the text stands below the second line of ---"
            problems.append(Problem(where, said, (name,), spot.line))
    body, *rest = _SMALL.split(body, maxsplit=1)
    text, small = (f"{part.strip()}\n" if part.strip() else "" for part in (body, "".join(rest)))
    if not text:
        said = "expected the text for the model below the second line of ---"
        problems.append(Problem(where, said, line=head.count("\n") + 3))
    whole = fields | {"text": text or _FENCE, "small_text": small}
    workflow, wrong = validate(Workflow, whole, document.spots, where, lambda name: _HINT)
    problems += [*wrong, *_list_unknown_tools(fields, document.spots, where, tools)]
    return workflow, problems


def _list_unknown_tools(
    fields: Mapping[str, object],
    spots: Mapping[Place, Spot],
    where: str,
    tools: Collection[str],
) -> Iterator[Problem]:
    """Yield the names and patterns of tools that mean none."""
    for field in ("tools", "small_tools") if tools else ():
        named = fields.get(field)
        for number, glob in enumerate(named if isinstance(named, list) else ()):
            if not isinstance(glob, str) or glob.startswith(_OPTIONAL):
                continue
            if not any(fnmatchcase(tool, glob) for tool in tools):
                place = (field, number)
                shown = one_line(glob, 60)
                said = f"no tool is named {shown!r}{suggest_nearest(glob, tools)}"
                yield Problem(where, said, place, find_spot(spots, place, where).line)


def find_bundled_folder() -> Path:
    """Return the folder of the bundled workflows: in the package (a wheel), or next to it."""
    here = Path(__file__).parents[1]
    packed = here / "workflows"
    return packed if packed.is_dir() else here.parent / "workflows"
