"""Workflow files: Markdown with a YAML front matter, whose fields CONTRIBUTING.md explains."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from worker.core.routing import comment_commands
from worker.core.routing.tiers import TierName
from worker.errors import ConfigError
from worker.settings.context import ContextSettings
from worker.settings.loop import GateChoice, PlanChoice

SMALL_WINDOW = 16_000
"""With less room than this for a request (in tokens), a workflow takes its compact form."""

_FENCE = "---\n"
_SMALL = re.compile(r"^<!-- small -->[ \t]*$", re.MULTILINE)
"""The line before the text for small windows."""

_COMMAND = "command:"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_RESERVED = comment_commands.KNOWN - {"analyze"} | {"unknown"}


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

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    description: str
    triggers: tuple[str, ...] = ()
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
    text: str = Field(min_length=1)
    small_text: str = ""

    @field_validator("triggers")
    @classmethod
    def _check_triggers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for trigger in value:
            name = trigger.removeprefix(_COMMAND)
            if trigger != "pipeline_failed" and (name == trigger or not _NAME.fullmatch(name)):
                raise ValueError(f"unknown trigger {trigger!r}: pipeline_failed or command:name")
            if name in _RESERVED:
                raise ValueError(f"{trigger!r}: there is a command of this name already")
        return value

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


def parse(text: str, where: str) -> Workflow:
    """Parse a workflow file's text. Raises ConfigError naming `where` and the field."""
    text = text.replace("\r\n", "\n")
    head, fence, body = text.removeprefix(_FENCE).partition("\n" + _FENCE)
    if not text.startswith(_FENCE) or not fence:
        raise ConfigError(f"{where}: expected a front matter between two lines of ---")
    try:
        fields = yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: the front matter is not YAML: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: the front matter must be a mapping")
    body, *rest = _SMALL.split(body, maxsplit=1)
    text, small = (f"{part.strip()}\n" if part.strip() else "" for part in (body, "".join(rest)))
    try:
        return Workflow.model_validate(fields | {"text": text, "small_text": small})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{where}: {field}: {first['msg']}") from error


def load(folder: str) -> Playbook:
    """Load every *.md of `folder`; "" means the workflows that come with Sandpiper."""
    path = Path(folder) if folder else find_bundled_folder()
    files = sorted(path.glob("*.md"))
    if not files:
        raise ConfigError(f"{path}: no workflow files (*.md) here; check `workflows:`")
    workflows = [parse(file.read_text(encoding="utf-8"), str(file)) for file in files]
    names = [workflow.name for workflow in workflows]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: two workflow files are named {name!r}")
    return Playbook(workflows)


def find_bundled_folder() -> Path:
    """Return the folder of the bundled workflows: in the package (a wheel), or next to it."""
    here = Path(__file__).parent
    packed = here / "workflows"
    return packed if packed.is_dir() else here.parent / "workflows"
