"""One version: `python -m tests.deploy.version` writes the package's wherever else it stands.

The package's is in `worker/__init__.py`. With `--tag v1.2.3`, as a release's pipeline calls it,
nothing is written: the exit status is 1, with a line for each place, unless all is of that version.
Needs nothing but Python.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from worker import __version__

ROOT = Path(__file__).parents[2]
NUMBER = r"\d+\.\d+\.\d+(?:-?[a-z]+\.?\d+)?"
PLACES = {
    "helm/sandpiper/Chart.yaml": rf"(?m)^(?:version|appVersion): ({NUMBER})$",
    "helm/sandpiper/README.md": rf"\bsandpiper:({NUMBER})|--version ({NUMBER})",
    "compose.yaml": rf"\bsandpiper:({NUMBER})",
    "worker/Dockerfile": rf"\bsandpiper:({NUMBER})",
}
"""The files that name a version of ours, and how."""


def find_others(root: Path = ROOT, version: str = __version__) -> Iterator[str]:
    """Yield a line for each place that names another version, or none at all."""
    for name, pattern in PLACES.items():
        text = (root / name).read_text("utf-8")
        found = [found[found.lastindex or 0] for found in re.finditer(pattern, text)]
        if not found:
            yield f"{name}: names no version"
        for other in {*found} - {version}:
            yield f"{name}: {other}, not {version}"
    if (newest := _find_newest(root)[0]) != version:
        yield f"CHANGELOG.md: its first heading is of {newest}, not {version}"


def find_doubts(tag: str, root: Path = ROOT, version: str = __version__) -> Iterator[str]:
    """Yield a line for each reason not to release this tag."""
    if tag != f"v{version}":
        yield f"the tag is {tag}, but worker/__init__.py says {version}: tag v{version}"
    yield from find_others(root, version)
    newest, day = _find_newest(root)
    if newest == version and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        yield f"CHANGELOG.md: {version} is '{day}': write the day of the release"


def _find_newest(root: Path) -> tuple[str, str]:
    """Return the version and the day of the changelog's first heading."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    heading = re.search(r"(?m)^## \[([^\]\n]+)\] - (.*)$", text)
    return (heading[1], heading[2]) if heading else ("nothing", "")


def write(root: Path = ROOT, version: str = __version__) -> None:
    """Write the version into every place."""
    for name, pattern in PLACES.items():
        file = root / name
        text = file.read_text("utf-8")
        for found in reversed([*re.finditer(pattern, text)]):
            begin, end = found.span(found.lastindex or 0)
            text = text[:begin] + version + text[end:]
        file.write_text(text, encoding="utf-8")


def main() -> int:
    """Write, or check with `--tag`."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.version", description=__doc__)
    parser.add_argument("--tag", help="check that all is of this tag's version; write nothing")
    tag = parser.parse_args().tag
    if tag is None:
        write()
        return 0
    doubts = list(find_doubts(tag))
    print("\n".join(doubts) or f"{tag}: package, images, chart and changelog agree")
    return 1 if doubts else 0


if __name__ == "__main__":
    sys.exit(main())
