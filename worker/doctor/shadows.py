"""Finds other packages that are called as Sandpiper's are: `worker` and `sandbox`.

Knows only the standard library, so that it still answers where one of the two is somebody else's.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from importlib.metadata import distributions
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
                if is_first:
                    finding = f"Python takes {other} for Sandpiper's `{name}`"
                    advice = f"take {other.parent} out of PYTHONPATH, or {_OWN}"
                else:
                    finding = f"Sandpiper's `{name}` hides another one from Python: {other}"
                    advice = f"if that is needed, {_OWN}"
                yield Shadow(finding, advice, is_first)
    for owner in distributions(path=list(dict.fromkeys(import_path))):
        is_here = Path(str(owner.locate_file(""))).resolve() == home
        if owner.name != DISTRIBUTION and is_here:
            tops = {file.parts[0] for file in owner.files or () if len(file.parts) > 1}
            if names := " and ".join(f"`{name}`" for name in NAMES if name in tops):
                installed = f"{owner.name} {owner.version}"
                finding = f"{installed} has put files of its own into Sandpiper's {names}"
                yield Shadow(finding, f"uninstall both, then {_OWN}", False)


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
