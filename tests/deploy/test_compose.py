"""compose.yaml, by the Compose specification's own schema and by what we promise of it."""

import json
import os
import re
import shutil
import subprocess
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import config_schema
from tests.deploy.image import ROOT
from tests.law.house import agree
from worker import settings
from worker.settings import Settings, reference
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS
from worker.settings.loading import name_variable

NEWEST = "github.com/compose-spec/compose-go/v2@v2.9.0"
# The file formats of Docker Compose 2.23.1, and of the one before it.
OLDEST = "github.com/compose-spec/compose-go@v1.20.1"
TOO_OLD = "github.com/compose-spec/compose-go@v1.20.0"
SUMS = {
    NEWEST: "h1:UHSv/QHlo6QJtrT4igF1rdORgIUhDo1gWuyJUoiNNIM=",
    OLDEST: "h1:I6gCMGLl96kEf8XZwaozeTwnNfxA2eVsO46W+5ciTEg=",
    TOO_OLD: "h1:h4ZKOst1EF/DwZp7dWkb+wbTVE4nEyT9Lc89to84Ol4=",
}
OURS = ("receiver", "worker", "sweep", "doctor")
PRIVILEGED = {"engine"}


@cache
def compose() -> dict[str, Any]:
    """The file, with its anchors resolved."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return loaded


@cache
def schema(module: str) -> dict[str, Any]:
    """The specification's schema as one version of Compose has it: a file of a Go module."""
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain to get the Compose specification's schema with")
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],
        env={**os.environ, "GONOSUMDB": "*"},  # not every proxy has the sums: they are SUMS
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the Compose specification's schema cannot be had: {done.stderr[-200:]}")
    told = json.loads(done.stdout)
    assert told["Sum"] == SUMS[module]
    path = Path(told["Dir"]) / "schema/compose-spec.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def find_faults(file: dict[str, Any], module: str = NEWEST) -> list[str]:
    """What a version of Compose refuses of a file, as it says it: the place, and what is wrong."""
    from jsonschema import Draft7Validator  # takes a second

    return [
        f"{'.'.join(map(str, error.path))} {error.message}"
        for error in Draft7Validator(schema(module)).iter_errors(file)
    ]


@pytest.mark.parametrize("module", [NEWEST, OLDEST])
def test_the_file_is_as_the_specification_wants_it(module: str) -> None:
    assert find_faults(compose(), module) == []


def test_an_older_compose_refuses_the_file_and_says_what_is_needed() -> None:
    (fault,) = find_faults(compose(), TOO_OLD)
    assert fault.startswith("configs.needs-docker-compose-2.23.1-or-newer ")
    assert "'content'" in fault
    head = (ROOT / "compose.yaml").read_text("utf-8").partition("name: sandpiper")[0]
    assert "It needs Docker Compose 2.23.1 or newer" in head


def test_compose_stops_at_no_variable_so_none_can_be_missing() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    used = re.findall(r"(?<!\$)\$\{?[A-Za-z_][^}\s]*", text)
    assert used
    assert [each for each in used if not re.match(r"\$\{[A-Z0-9_]+:-", each)] == []


def test_nothing_has_to_be_written_into_a_container_whose_root_cannot_be_written() -> None:
    written = {
        kind: {name for name, row in compose()[kind].items() if set(row) != {"file"}}
        for kind in ("configs", "secrets")
    }
    for name, service in compose()["services"].items():
        for kind, inline in written.items():
            given = {
                each if isinstance(each, str) else each["source"] for each in service.get(kind, ())
            }
            assert not (given & inline), f"{name}: Compose copies {kind} {given & inline} into it"


def test_a_planted_key_is_refused() -> None:
    wrong = {**compose(), "services": {"receiver": {"imag": "x"}}}
    assert any("'imag' does not match" in each for each in find_faults(wrong))


@pytest.mark.parametrize("name", compose()["services"])
def test_every_service_is_confined_and_has_limits(name: str) -> None:
    service = compose()["services"][name]
    assert {"mem_limit", "cpus", "pids_limit", "stop_grace_period"} <= set(service)
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")
    assert not any(each.startswith("/") for each in service.get("volumes", ()))
    if name in PRIVILEGED:
        return
    assert "privileged" not in service
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.attack("supply")
def test_whatever_ours_is_built_on_can_be_pinned() -> None:
    base = "BASE=${SANDPIPER_BASE:-debian:bookworm-slim}"
    services = compose()["services"]
    builds = [service["build"]["args"] for service in services.values() if "build" in service]
    assert {f"BASE={args['BASE']}" for args in builds} == {base}
    assert f"--build-arg={base}" in services["sandbox-image"]["command"]
    for file in ("worker/Dockerfile", "sandbox/image/Dockerfile"):
        lines = [line.split() for line in (ROOT / file).read_text("utf-8").splitlines()]
        stages = {line[3] for line in lines if line[:1] == ["FROM"] and "AS" in line}
        named = {line[1] for line in lines if line[:1] == ["FROM"]}
        assert named - stages <= {"${BASE}", "scratch"}


def test_a_worker_has_room_in_memory_for_the_temporary_files_of_all_its_sessions() -> None:
    worker = compose()["services"]["worker"]
    sessions = int(worker["command"][worker["command"].index("--concurrency") + 1])
    (mount,) = worker["tmpfs"]
    size = int(mount.partition("size=")[2].partition("g,")[0])
    assert mount.startswith("/tmp:")
    assert size * 1024 == sessions * 512
    # What lies in a tmpfs counts as the container's memory; the rest is what the chart grants.
    values = yaml.safe_load((ROOT / "helm/sandpiper/values.yaml").read_text("utf-8"))
    granted = int(values["worker"]["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert int(worker["mem_limit"].removesuffix("g")) == size + granted


def test_only_the_receiver_is_published_and_only_on_loopback() -> None:
    published = {
        name: service["ports"]
        for name, service in compose()["services"].items()
        if "ports" in service
    }
    assert published == {"receiver": ["127.0.0.1:8080:8080"]}


def test_queue_store_and_engine_are_out_of_each_other_s_reach() -> None:
    services, networks = compose()["services"], compose()["networks"]
    assert services["redis"]["networks"] == ["queue"]
    assert services["s3"]["networks"] == ["store"]
    assert services["engine"]["networks"] == ["registry"]
    assert networks["queue"] == networks["store"] == {"internal": True}


def test_a_secret_is_a_file_that_is_declared() -> None:
    declared = compose()["secrets"]
    for service in compose()["services"].values():
        assert set(service.get("secrets", ())) <= set(declared)
        for variable, value in service.get("environment", {}).items():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], variable
    assert all(set(each) == {"file"} for each in declared.values())


OF_THE_DOOR = {"webhook_secret", "webhook_key", "operator_token", "client_secret"}
NOT_OURS = {("broker_sentinel_password",)}
"""Compose brings a Redis of its own."""


def find_needers(place: tuple[str, ...]) -> set[str]:
    """The services that need a secret."""
    if place == ("gitlab", "setup_token"):
        return {"doctor"}
    if place == ("pages", "secret"):
        return set(OURS)
    if place[-1] in OF_THE_DOOR:
        return {"receiver"} if place[-1] == "operator_token" else {"receiver", "doctor"}
    return {"worker", "sweep", "doctor"}


@pytest.mark.parametrize("place", sorted(set(SECRETS) - NOT_OURS), ids=".".join)
def test_every_secret_reaches_who_needs_it_and_nobody_else(place: tuple[str, ...]) -> None:
    names = {each for name in SECRETS[place] for each in (name, f"{name}_FILE")}
    given = {name for name in OURS if names & set(compose()["services"][name]["environment"])}
    where = f"those that get {SECRETS[place][0]}, or its _FILE with the secret, in compose.yaml"
    assert agree(find_needers(place), given, where)


@pytest.mark.parametrize("variable", sorted({*OVERRIDES, *chain(*DEFAULTS.values())}))
def test_every_variable_of_the_reference_reaches_every_service(variable: str) -> None:
    given = {name for name in OURS if variable in compose()["services"][name]["environment"]}
    assert agree(OURS, given, f"those that get {variable}, by x-environment of compose.yaml")


@pytest.mark.parametrize(
    ("variable", "group"), [("GEMINI_BASE_URL", "environment"), ("GEMINI_API_KEY", "tokens")]
)
def test_a_variable_that_is_lacking_is_added_to_its_group(variable: str, group: str) -> None:
    whole = config_schema.COMPOSE.read_text("utf-8")
    line = f"  {variable}: ${{{variable}:-}}\n"
    added = config_schema.add_variables(whole.replace(line, ""))

    assert yaml.safe_load(added)[f"x-{group}"] == yaml.safe_load(whole)[f"x-{group}"]
    assert added.count(line) == 1


def test_the_chart_takes_every_variable_of_the_reference() -> None:
    from jsonschema import Draft7Validator  # takes a second

    chart = ROOT / "helm/sandpiper"
    schema = json.loads((chart / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((chart / "values.yaml").read_text("utf-8"))
    keys = {name_variable(row.place) for row in reference.list_rows() if "[]" not in row.place}
    names = {*OVERRIDES, *chain(*DEFAULTS.values()), *keys}
    values["env"] = dict.fromkeys(names, "x")
    secret = {name: "key" for names in SECRETS.values() for name in names}
    values["secrets"] |= {"existingSecret": "s", "receiver": secret, "worker": secret}
    assert [each.message for each in Draft7Validator(schema).iter_errors(values)] == []


def test_what_is_waited_for_has_a_health_check() -> None:
    services = compose()["services"]
    for service in services.values():
        for other, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[other], other


def test_the_settings_are_ones_that_sandpiper_takes(tmp_path: Path) -> None:
    file = tmp_path / "sandpiper.yaml"
    head = (ROOT / "compose.yaml").read_text("utf-8")
    (content,) = re.findall(r"cat >sandpiper.yaml <<'END'[^\n]*\n(.*?)#   END\n", head, re.DOTALL)
    file.write_text(re.sub("^#   ", "", content, flags=re.MULTILINE))
    for name in OURS:
        environment = compose()["services"][name]["environment"]
        unset = re.compile(r"\$\{[A-Z0-9_]+:-([^}]*)\}")
        given = {key: unset.sub(r"\1", value) for key, value in environment.items()}
        given["GITLAB_URL"] = "https://gitlab.example.com"
        assert given["SANDPIPER_PAGE_SECRET_FILE"] == "/run/secrets/page-secret"
        for variable in [each for each in given if each.endswith("_FILE")]:
            (tmp_path / variable).write_text(variable)
            given[variable] = str(tmp_path / variable)
        cost = name_variable(("limits", "cost_usd"))
        read = settings.load(str(file), {**given, cost: "7"})  # as compose.override.yaml adds it
        assert read.limits.cost_usd == 7
        assert read.models.default == Settings().models.default, "what is unset says nothing"
        assert read.broker == "redis://redis:6379/0"
        assert read.s3_endpoint == "http://s3:7070"
        assert read.sandbox.shared_limits
        assert read.pages.url == "https://sandpiper.example.com"
        bucket = read.store.removeprefix("s3://").partition("/")[0]
        assert f"/data/{bucket}\n" in compose()["services"]["s3"]["command"][0]


def test_a_worker_has_its_grace_and_time_to_leave() -> None:
    seconds = int(compose()["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert seconds == Settings().worker.grace + 30
