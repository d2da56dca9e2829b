"""A simulated cluster in a process of its own: `python -m tests.simulators.kubernetes KUBECONFIG`.

Says "ready" once it answers, ends with standard input, and exits with 1 if it was asked what no
client of ours should ask.
"""

import sys
from pathlib import Path

from tests.simulators.kubernetes.simulator import KubernetesSim


def main(kubeconfig: str) -> int:
    with KubernetesSim() as sim:
        sim.write_kubeconfig(Path(kubeconfig))
        print("ready", flush=True)
        sys.stdin.read()
        print(*sim.unexpected_requests, sep="\n", file=sys.stderr)
        return 1 if sim.unexpected_requests else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
