"""The ways to break a patient."""

from dataclasses import dataclass

from tests.simulators.anthropic.model_list import describe_model
from tests.simulators.gitlab.webhook_state import add_delivery
from tests.unit.doctor.bed import Bed, Break
from worker.doctor.base import CheckStatus
from worker.doctor.shadows import HOME

FLOW = "---\nname: mine\ndescription: d\ntriggers: [{}]\ntools: [{}]\n---\nLook.\n"
F, W, U = CheckStatus.FAILED, CheckStatus.WARNING, CheckStatus.UNCHECKED
READ, WRITE = "GITLAB_READ_TOKEN", "GITLAB_WRITE_TOKEN"


@dataclass(frozen=True)
class Row:
    """A way to break it: the check that finds it, its line, what that says and advises."""

    what: str
    broken: Break
    check: str
    name: str
    status: CheckStatus
    found: str
    advice: str


def env(**values: str) -> Break:
    return lambda bed: bed.env.update(values)


def file(**values: object) -> Break:
    return lambda bed: bed.file.update(values)


def token(variable: str, *scopes: str, days: int = 300, bot: bool = True) -> Break:
    return lambda bed: bed.env.update({variable: bed.token(*scopes, days=days, bot=bot)})


def hook(**values: object) -> Break:
    def change(bed: Bed) -> None:
        for name, value in values.items():
            setattr(bed.hook, name, value)

    return change


def without(*events: str) -> Break:
    return lambda bed: bed.hook.events.difference_update(events)


def list_model(model: str, window: int) -> Break:
    """The model is configured, and its provider states that window."""

    def change(bed: Bed) -> None:
        bed.env["SANDPIPER_MODEL"] = f"anthropic/{model}"
        bed.model.model_list.append(describe_model(model, window))

    return change


def break_list(bed: Bed) -> None:
    bed.model.fail_list(200, b"<html>")


def last_delivery(status: str) -> Break:
    return lambda bed: add_delivery(bed.hook, status)


def set_to(**values: object) -> Break:
    def change(bed: Bed) -> None:
        for name, value in values.items():
            setattr(bed, name, value)

    return change


def old(version: str) -> Break:
    def change(bed: Bed) -> None:
        bed.gitlab.webhooks.version = version

    return change


def revoked(bed: Bed) -> None:
    bed.gitlab.tokens[bed.scene.write_token].active = False


def disabled(bed: Bed) -> None:
    hook(alert="disabled", deliveries=[])(bed)


def unreached(bed: Bed) -> None:
    bed.url = "http://127.0.0.1:9"
    hook(url="http://127.0.0.1:9/webhooks/gitlab", deliveries=[])(bed)


def elsewhere(bed: Bed) -> None:
    bed.url = f"{bed.gitlab.url}/api/v4/x"


def workflow(text: str) -> Break:
    def change(bed: Bed) -> None:
        folder = bed.folder / "flows"
        folder.mkdir()
        (folder / "one.md").write_text(text)
        bed.file["workflows"] = str(folder)

    return change


def stranger(name: str, *, first: bool) -> Break:
    """Another package of this name, before or after Sandpiper's."""

    def change(bed: Bed) -> None:
        package = bed.folder / "strange" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        path = [str(package.parent), str(HOME)]
        bed.parts["import_path"] = path if first else path[::-1]

    return change


def no_folder(bed: Bed) -> None:
    (bed.folder / "a-file").write_text("")
    bed.env["SANDPIPER_STORE"] = f"file://{bed.folder}/a-file/store"
