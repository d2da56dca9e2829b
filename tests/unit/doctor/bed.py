"""A patient for the doctor: real parts and strict simulators, well until somebody breaks them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.simulators.anthropic import AnthropicSim
from tests.simulators.anthropic.model_list import SERVED
from tests.simulators.gitlab import Access, GitLabSim, Scene, make_failing_merge_request
from tests.simulators.gitlab.webhook_state import Webhook, Webhooks, add_delivery
from worker import settings as settings_module
from worker.cli import doctor
from worker.doctor.base import CheckLine, Installation, run_checks
from worker.doctor.table import CHECKS
from worker.lab.script import Answer, Asked, Call
from worker.safety.redact import Redactor

URL = "https://sandpiper.example"
SECRET = "bed-webhook-secret-0123456789"
KEY = "sk-ant-bed-key-of-no-worth-at-all"
EVENTS = ("pipeline_events", "note_events", "confidential_note_events", "emoji_events")


@dataclass
class Bed:
    """What can be broken: GitLab's state, the environment, the file, the parts, the clock."""

    gitlab: GitLabSim
    scene: Scene
    model: AnthropicSim
    folder: Path
    hook: Webhook
    env: dict[str, str]
    file: dict[str, Any] = field(default_factory=dict)
    url: str = URL
    fix: bool = False
    ahead: float = 0.0
    answer: Answer = Call([("report_number", {"number": 17})])  # noqa: RUF009
    parts: dict[str, Any] = field(default_factory=dict)

    def lines(self, *names: str) -> list[CheckLine]:
        """What the checks of these names say; all that needs no engine without any."""
        path = self.folder / "sandpiper.yaml"
        path.write_text(yaml.safe_dump(self.file))
        settings = settings_module.load(str(path), self.env)
        patient = doctor.make_installation(settings, path, self.url, self.fix, self.now)
        return self.examined(replace(patient, **self.parts), names)

    def examined(self, patient: Installation, names: Sequence[str]) -> list[CheckLine]:
        checks = [check for check in CHECKS if check.name in names]
        assert len(checks) == len(names), names
        redact = Redactor(patient.settings.list_secrets()).redact_text
        report = run_checks(patient, checks, redact)
        assert not report.has_hung
        told = " ".join(f"{line.finding} {line.advice}" for _, line in report.lines)
        for secret in patient.settings.list_secrets():
            assert secret not in told
        return [line for _, line in report.lines]

    def now(self) -> float:
        return datetime.now(UTC).timestamp() + self.ahead

    def token(self, *scopes: str, days: int = 300, bot: bool = True) -> str:
        """Another token of the bot, or of a person."""
        owner = self.scene.bot if bot else self.scene.developer
        value = self.gitlab.add_token("other", owner, *scopes)
        last = datetime.now(UTC).date() + timedelta(days=days)
        self.gitlab.tokens[value].expires_at = last.isoformat()
        return value

    def role(self, access: Access) -> None:
        self.gitlab.add_member(self.scene.project, self.scene.bot, access)


@dataclass
class Ward:
    """The two simulators that all patients share, one after the other."""

    gitlab: GitLabSim
    model: AnthropicSim
    beds: list[Bed] = field(default_factory=list)


@contextmanager
def ward() -> Iterator[Ward]:
    """The simulators; the model answers as the present patient's does."""
    made: list[Ward] = []

    def script(asked: Asked) -> Answer:
        return made[0].beds[-1].answer

    with GitLabSim() as gitlab, AnthropicSim(script, key=KEY) as model:
        made.append(Ward(gitlab, model))
        yield made[0]


@contextmanager
def bed(ward: Ward, folder: Path) -> Iterator[Bed]:
    """A GitLab where everything is well. Ends with a look at what it was asked."""
    gitlab = ward.gitlab
    gitlab.projects.clear()
    gitlab.requests.clear()
    gitlab.unexpected_requests = []
    gitlab.webhooks = Webhooks()
    scene = make_failing_merge_request(gitlab)
    hook = gitlab.webhooks.add(scene.project, f"{URL}/webhooks/gitlab", *EVENTS, token="the secret")
    add_delivery(hook, "200")
    env = {
        "GITLAB_URL": gitlab.url,
        "GITLAB_READ_TOKEN": scene.read_token,
        "GITLAB_WRITE_TOKEN": scene.write_token,
        "GITLAB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": ward.model.url,
        "SANDPIPER_STORE": f"file://{folder}/store",
    }
    made = Bed(gitlab, scene, ward.model, folder, hook, env)
    made.role(Access.MAINTAINER)
    ward.model.model_list = list(SERVED)
    ward.beds.append(made)
    yield made
    assert gitlab.unexpected_requests == []


Break = Callable[[Bed], object]
