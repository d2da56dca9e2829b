"""The engine's profile: what it lists, and what it must not."""

import json
from typing import Any

import pytest

from sandbox.seccomp import ALLOWED_FAMILIES, OWN, REFUSED, make_profile
from sandbox.spec import ContainerSpec, _make_host_config


def find_rules(call: str) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = json.loads(make_profile())["syscalls"]
    return [rule for rule in rules if call in rule["names"]]


@pytest.mark.attack("sandbox")
@pytest.mark.parametrize(
    "call",
    [
        *REFUSED,
        *("pidfd_getfd", "kcmp", "memfd_secret", "process_madvise", "fanotify_init", "vhangup"),
        *("lookup_dcookie", "iopl", "modify_ldt", "mbind", "move_pages", "nfsservctl", "ipc"),
    ],
)
def test_what_bubblewrap_refuses_and_more_is_not_listed(call: str) -> None:
    assert find_rules(call) == []


@pytest.mark.attack("sandbox")
def test_a_call_that_depends_on_its_argument_is_never_allowed_without_it() -> None:
    for call in ("socket", "personality", "prlimit64", "clone"):
        rules = find_rules(call)
        assert rules
        assert all(rule["args"] for rule in rules)
    assert [rule["args"][0]["value"] for rule in find_rules("socket")] == list(ALLOWED_FAMILIES)
    assert not set(ALLOWED_FAMILIES) & {38, 40}  # AF_ALG, AF_VSOCK
    assert "prlimit64" in OWN


def test_clone3_does_not_exist_and_all_else_is_refused() -> None:
    (rule,) = find_rules("clone3")
    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert json.loads(make_profile())["defaultAction"] == "SCMP_ACT_ERRNO"


def test_the_profile_goes_to_the_engine_as_content() -> None:
    from docker import APIClient

    api = APIClient(base_url="tcp://127.0.0.1:1", version="1.41")
    for spec in (ContainerSpec(), ContainerSpec(shared_limits=True)):
        options = _make_host_config(api, spec)["SecurityOpt"]
        assert options == ["no-new-privileges:true", f"seccomp={make_profile()}"]
    api.close()
