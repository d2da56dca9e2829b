"""Makes the worker's image's lists of Python packages: `python -m tests.deploy.lock [--upgrade]`.

What a list pins already stays, unless pyproject.toml asks for something else, or with `--upgrade`.
"""

import subprocess
import sys
from collections.abc import Sequence

from tests.deploy.image import ROOT, project

LOCKS = {
    "worker/requirements.lock": project()["project"]["dependencies"],
    "worker/build.lock": project()["build-system"]["requires"],
}
"""The lists, and what each has to answer."""

_OPTIONS = (
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--only-binary", ":all:"),
    *("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"),
    *("--no-annotate", "--quiet"),
)


def make(name: str, wanted: Sequence[str], *more: str) -> None:
    """Write one list. Raises CalledProcessError, after uv has said what is wrong."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "-o", name, *_OPTIONS, *more]
    subprocess.run(command, input="\n".join(wanted), text=True, cwd=ROOT, timeout=600, check=True)


def main(arguments: Sequence[str]) -> int:
    """Write the lists."""
    for name, wanted in LOCKS.items():
        try:
            make(name, wanted, *arguments)
        except subprocess.CalledProcessError as error:
            return int(error.returncode)
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
