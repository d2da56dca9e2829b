"""Finds other packages that are called as Sandpiper's are: `worker` and `sandbox`.

Knows only the standard library, so that it still answers where one of the two is somebody else's.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from importlib.metadata import Distribution, distributions
from pathlib import Path

from worker import DISTRIBUTION

NAMES = ("worker", "sandbox")
HOME = Path(__file__).resolve().parents[2]
"""The folder that Sandpiper's packages are in."""

_OWN = "install Sandpiper into an environment of its own (pipx, `uv tool`, a new venv)"


@dataclass(frozen=True, slots=True)
class Shadow:
    """Another package of one of our names. `hides_ours`: Python finds it before Sandpiper's."""

    finding: str
    advice: str
    hides_ours: bool


def find_shadows(import_path: Sequence[str], home: Path = HOME) -> Iterator[Shadow]:
    """Yield what is called as our packages are, by the folders that Python searches, in order."""
    folders = [Path(entry).resolve() for entry in import_path]
    for name in NAMES:
        is_first = True
        for folder in dict.fromkeys(folders):
            if folder == home:
                is_first = False
            elif other := _find_module(folder, name):
                yield _describe_shadow(name, other, hides_ours=is_first)
    for owner in distributions(path=list(dict.fromkeys(import_path))):
        if names := _list_shared(owner, home):
            yield _describe_mixture(names, owner)


def explain_import_error(error: ImportError) -> str:
    """Say why one of our modules was not found: another package hides ours. "" if none does."""
    if (error.name or "").partition(".")[0] not in NAMES:
        return ""
    hiding = [each for each in find_shadows(sys.path) if each.hides_ours]
    return "; ".join(f"{each.finding}: {each.advice}" for each in hiding)


def _find_module(folder: Path, name: str) -> Path | None:
    """Return the package or module; a folder without `__init__` hides nothing."""
    for suffix in all_suffixes():
        for file in (folder / name / f"__init__{suffix}", folder / f"{name}{suffix}"):
            if file.is_file():
                return file.parent if file.parent != folder else file
    return None


def _describe_shadow(name: str, other: Path, *, hides_ours: bool) -> Shadow:
    if not hides_ours:
        finding = f"Sandpiper's `{name}` hides another one from Python: {other}"
        return Shadow(finding, f"if that is needed, {_OWN}", False)
    finding = f"Python takes {other} for Sandpiper's `{name}`"
    advice = f"take {other.parent} out of PYTHONPATH, or {_OWN}"
    return Shadow(finding, advice, True)


def _list_shared(owner: Distribution, home: Path) -> list[str]:
    """List our packages of which another distribution has installed files."""
    if owner.name == DISTRIBUTION or Path(str(owner.locate_file(""))).resolve() != home:
        return []
    tops = {file.parts[0] for file in owner.files or () if len(file.parts) > 1}
    return [name for name in NAMES if name in tops]


def _describe_mixture(names: Sequence[str], owner: Distribution) -> Shadow:
    called = " and ".join(f"`{name}`" for name in names)
    finding = f"{owner.name} {owner.version} has put files of its own into Sandpiper's {called}"
    advice = f"uninstall both, then {_OWN}"
    return Shadow(finding, advice, False)
