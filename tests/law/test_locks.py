"""The image's Python packages: pinned, with hashes, and what pyproject.toml asks for."""

import re
from collections.abc import Iterable, Sequence

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.deploy.image import project
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


ADVISORIES = {
    "celery": ("5.2.2", "CVE-2021-23727"),
    "cryptography": ("46.0.6", "CVE-2026-26007, CVE-2026-34073"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516, CVE-2024-56326, CVE-2024-56201"),
    "joserfc": ("1.6.3", "CVE-2026-27932"),
    "markdown-it-py": ("2.2.0", "CVE-2023-26303, CVE-2023-26302"),
    "pyasn1": ("0.6.2", "CVE-2026-23490"),
    "pydantic": ("2.4.0", "CVE-2024-3772"),
    "pytest": ("9.0.3", "CVE-2025-71176"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "redis": ("4.5.4", "CVE-2023-28859"),
    "requests": ("2.33.0", "CVE-2026-25645, CVE-2024-47081, CVE-2024-35195"),
    "starlette": (
        "1.3.1",
        "CVE-2026-54283, CVE-2026-54282, CVE-2026-48710, CVE-2025-62727, CVE-2025-54121",
    ),
    "urllib3": ("2.7.0", "CVE-2026-44432, CVE-2026-21441, CVE-2025-66471, CVE-2025-66418"),
}
"""The first version without the known flaws, and which these are."""


def list_flawed(requirements: Iterable[Requirement]) -> list[str]:
    """The requirements that a version with a known flaw would meet."""
    found = []
    for each in requirements:
        fixed, ids = ADVISORIES.get(each.name.lower().replace("_", "-"), ("", ""))
        lowest = [Version(one.version) for one in each.specifier if one.operator in (">=", "==")]
        if fixed and (not lowest or max(lowest) < Version(fixed)):
            found.append(f"{each} allows what {fixed} has mended: {ids}")
    return found


def test_no_version_with_a_known_flaw_is_good_enough() -> None:
    wanted = project()
    stated = [
        *wanted["project"]["dependencies"],
        *(each for group in wanted["project"]["optional-dependencies"].values() for each in group),
        *(each for group in wanted["dependency-groups"].values() for each in group),
        *wanted["build-system"]["requires"],
    ]
    assert none(list_flawed(map(Requirement, stated)))


@pytest.mark.parametrize("name", LOCKS)
def test_no_version_with_a_known_flaw_is_pinned(name: str) -> None:
    assert none(list_flawed(entries((ROOT / name).read_text("utf-8"))[0].values()))


@pytest.mark.parametrize("stated", ["starlette>=0.46,<2", "starlette", "joserfc==1.6.2", "H11<1"])
def test_a_planted_bound_is_found(stated: str) -> None:
    (found,) = list_flawed([Requirement(stated)])
    assert "CVE-" in found


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
