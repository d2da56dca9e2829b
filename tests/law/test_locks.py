"""The image's Python packages: pinned, with hashes, and what pyproject.toml asks for."""

import re
from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement

from tests.deploy.lock import LOCKS
from tests.law.house import ROOT, none

pytestmark = pytest.mark.attack("supply")

HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
IMAGE = {"python_full_version": "3.11.2", "python_version": "3.11", "sys_platform": "linux"}


def entries(text: str) -> tuple[dict[str, Requirement], list[str]]:
    """The requirements by name, and what is no requirement with `==` and hashes."""
    found: dict[str, Requirement] = {}
    wrong: list[str] = []
    for block in re.split(r"\n(?=\S)", text.rstrip("\n")):
        if block.startswith("#"):
            continue
        first, *hashes = block.split("\n")
        first = first.removesuffix(" \\")
        wanted = Requirement(first)
        pins = [each.operator for each in wanted.specifier]
        if wanted.url or pins != ["=="] or not hashes or not all(map(HASH.fullmatch, hashes)):
            wrong.append(first)
        found[wanted.name] = wanted
    return found, wrong


def disagreements(text: str, wanted: Sequence[str]) -> list[str]:
    """What a list does not give, or gives wrongly."""
    found, wrong = entries(text)
    for each in map(Requirement, wanted):
        locked = found.get(each.name.lower().replace("_", "-"))
        if locked is None or (locked.marker and not locked.marker.evaluate(IMAGE)):
            wrong.append(f"{each} is missing")
        elif not each.specifier.contains(next(iter(locked.specifier)).version):
            wrong.append(f"{each}, not {locked}")
    return wrong


@pytest.mark.parametrize("name", LOCKS)
def test_a_list_agrees_with_pyproject(name: str) -> None:
    wrong = disagreements((ROOT / name).read_text("utf-8"), LOCKS[name])
    assert none([f"{each}: run make lock" for each in wrong])


GOOD = f"# made\na==1.5 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
PLANTED = [
    (GOOD, ["a>=2"], "a>=2, not a==1.5"),
    (GOOD, ["a>=1", "b"], "b is missing"),
    (GOOD + "b==1\n", ["a"], "b==1"),
    (GOOD.replace("==", ">="), ["a"], "a>=1.5"),
    (GOOD.replace("sha256:0", "md5:0"), ["a"], "a==1.5"),
    (GOOD.replace("a==1.5", "a @ https://x/a.whl"), ["c"], "a @ https://x/a.whl"),
    (GOOD.replace("a==1.5", "a==1.5 ; python_version < '3'"), ["a"], "a is missing"),
]


@pytest.mark.parametrize(("text", "wanted", "wrong"), PLANTED)
def test_a_planted_mistake_is_found(text: str, wanted: list[str], wrong: str) -> None:
    assert wrong in disagreements(text, wanted)


def test_a_good_list_is_one() -> None:
    assert disagreements(GOOD, ["a>=1,<2"]) == []


def test_the_image_takes_nothing_without_its_hash() -> None:
    text = (ROOT / "worker/Dockerfile").read_text("utf-8")
    installs = re.findall(r"pip\S* (?:[^&]*? )?install [^&]*", text.replace("\\\n", " "))
    assert len(installs) == 3
    for install in installs:
        own = "--no-deps --no-index" in install
        assert own or "--require-hashes --only-binary :all:" in install, install
