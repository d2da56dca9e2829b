"""Sandboxes as pods, one for each session.

    driver = KubernetesDriver(ContainerSpec(memory="1g"))
    with driver.start("session-id") as sandbox:
        result = sandbox.exec("ls -l", timeout=60, number=1)

No pod is privileged, and the namespace may enforce the Pod Security Standard `restricted`. Before
its first command, every sandbox proves from inside that it reaches nothing, or it is refused.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress

from lightkube.resources.core_v1 import Pod

from sandbox.base import (
    SandboxError,
    SandboxGone,
    SandboxRefused,
    SandboxTaken,
    SandboxUnavailable,
)
from sandbox.framed import FramedSandbox
from sandbox.kubernetes.cluster import Cluster, Missing, list_targets
from sandbox.kubernetes.exec_stream import ExecStream
from sandbox.kubernetes.manifest import (
    LABELS,
    PodSettings,
    describe_delay,
    explain_end,
    find_hopeless_state,
    is_running,
    make_manifest,
)
from sandbox.seccomp import encode_filters
from sandbox.spec import (
    OWNER_LABEL,
    PYTHON,
    SESSION_LABEL,
    ContainerSpec,
    compute_process_limits,
    make_owner,
    make_runner_command,
    make_sweeper_command,
)
from sandbox.wire import Silent

_POLL_SECONDS = (0.1, 1.0)
_PROOF_SECONDS = 20
_PROCESS_SECONDS = 10
_END_SECONDS, _END_PAUSE = 3.0, 0.1
_API_SECONDS, _API_PAUSE = 5.0, 0.25
"""How long `remove` retries while the API server is down; then `remove_stale_pods` cleans up."""

_PROOF = [*PYTHON, "/opt/sandpiper/sandbox/image/isolation.py"]
_COUNT = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')) - 2)"
"""Counts all processes except process 1 and the counting process itself."""

Targets = Callable[[Cluster], list[str]]


class _PodContainer:
    """The container of a running pod. Implements sandbox.supervised.Container.

    `owner` is a mark of whoever started or adopted it last; only the owner ends what runs in it.
    """

    def __init__(self, cluster: Cluster, pod: str, spec: ContainerSpec, owner: str) -> None:
        self._cluster, self._spec, self._owner = cluster, spec, owner
        self.pod = pod
        self.name = f"the image {spec.image}"
        # When a control group runs out of memory, the kubelet has the kernel kill all of its
        # processes. A process that asks for more than `spec.memory` gets an error before that.
        limits, filters = compute_process_limits(spec, "RLIMIT_DATA"), encode_filters()
        self._runner = make_runner_command(limits, filters=filters)
        self._sweeper = make_sweeper_command()

    def connect(self, deadline: float) -> ExecStream:
        return self._cluster.start_process(self.pod, self._runner, deadline)

    def _run(self, argv: list[str], seconds: float) -> tuple[int, str]:
        """Run a process that no command can trace; returns its exit code and its output.

        Raises SandboxGone.
        """
        deadline = time.monotonic() + seconds
        with closing(self._cluster.start_process(self.pod, argv, deadline)) as stream:
            try:
                output = stream.drain(deadline).decode("utf-8", "replace")
            except Silent as error:
                raise SandboxGone("the sandbox's own processes do not end") from error
            code = stream.get_exit_code()
            if code is None:
                raise SandboxGone(f"a process in the sandbox broke off: {stream.get_last_output()}")
            return code, output.strip()

    def is_running(self) -> bool:
        try:
            return is_running(self._cluster.get_pod(self.pod))
        except Missing:
            return False

    def explain_end(self) -> str:
        """Explain the container's end, which the node reports with a delay."""
        until = time.monotonic() + _END_SECONDS
        with suppress(SandboxError):
            while is_running(pod := self._cluster.get_pod(self.pod)) and time.monotonic() < until:
                time.sleep(_END_PAUSE)
            return explain_end(pod, self._spec)
        return ""

    def assign_session(self, session: str) -> None:
        with suppress(SandboxError):
            labels = {SESSION_LABEL: session, OWNER_LABEL: self._owner}
            self._cluster.label_pod(self.pod, labels)

    def check_owner(self) -> None:
        pod = self._cluster.get_pod(self.pod)
        if _get_labels(pod).get(OWNER_LABEL) != self._owner:
            raise SandboxTaken("another worker has taken this sandbox over")

    def kill_commands(self) -> None:
        self._run(self._sweeper, _PROCESS_SECONDS)

    def count_processes(self) -> int:
        """Count with a process that commands can kill or stop, but not deceive."""
        code, count = self._run([*PYTHON, "-c", _COUNT], _PROCESS_SECONDS)
        if code != 0 or not count.isdigit():
            raise SandboxGone("the sandbox's processes cannot be counted")
        return int(count)

    def prove_isolation(self, targets: list[str], seconds: int) -> None:
        """Raise SandboxRefused unless the container reaches none of the targets.

        While any of them answers, all are tried again, for up to `seconds`.
        """
        code, openings = self._run([*_PROOF, str(seconds), *targets], seconds + _PROOF_SECONDS)
        if code == 0 and not openings:
            return
        if not openings:
            raise SandboxRefused(f"{self.name} cannot prove its isolation: build it anew")
        reached = ", ".join(openings.split()[:8])
        raise SandboxRefused(
            f"a sandbox's pod reaches {reached}: no network policy is enforced for it. Install a "
            "network plug-in that enforces NetworkPolicy, and the chart's policy for sandboxes in "
            "their namespace"
        )

    def kill(self) -> None:
        with suppress(SandboxError):
            self._cluster.delete_pod(self.pod)

    def remove(self) -> bool:
        until = time.monotonic() + _API_SECONDS
        while not (removed := self._try_remove()) and time.monotonic() < until:
            time.sleep(_API_PAUSE)
        if removed:
            self._cluster.close()
        return removed

    def _try_remove(self) -> bool:
        try:
            self.check_owner()
            self._cluster.delete_pod(self.pod)
        except (Missing, SandboxTaken):
            return True
        except SandboxError:
            return False
        return True


class _PodSandbox(FramedSandbox):
    """A sandbox in a pod, made by KubernetesDriver.start."""

    def __init__(self, container: _PodContainer, spec: ContainerSpec) -> None:
        super().__init__(container, spec)
        self.pod = container.pod


class KubernetesDriver:
    """Starts pods of one spec in one namespace; see sandbox.base.Driver for the contract.

    Without `namespace`, the namespace of this process's pod or of the kubeconfig's context is used.
    `targets` lists the addresses that no sandbox may reach. The constructor makes no connection.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        namespace: str = "",
        settings: PodSettings | None = None,
        targets: Targets = lambda cluster: list_targets(cluster.server, cluster.find_own_address()),
    ) -> None:
        self._spec, self._namespace = spec, namespace
        self._settings = settings or PodSettings()
        self._targets = targets

    def check(self) -> None:
        """Raise SandboxUnavailable unless the cluster would take a sandbox's pod."""
        with closing(Cluster(self._namespace)) as cluster:
            self._create(cluster, "check", make_owner(), dry_run=True)

    def _create(self, cluster: Cluster, session: str, owner: str, *, dry_run: bool = False) -> str:
        manifest = make_manifest(self._spec, self._settings, session, owner)
        created = cluster.create_pod(manifest, dry_run=dry_run)
        return str(created.metadata.name if created.metadata else "")

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> _PodSandbox:
        with ExitStack() as undo:
            cluster = Cluster(self._namespace)
            undo.callback(cluster.close)
            owner = make_owner()
            pod = self._create(cluster, session, owner)
            container = _PodContainer(cluster, pod, self._spec, owner)
            sandbox = _PodSandbox(container, self._spec)
            undo.callback(sandbox.close)
            try:
                _wait_for_start(cluster, sandbox.pod, self._settings.start_seconds)
                self._prove_isolation(cluster, container)
            except SandboxGone as error:
                raise SandboxUnavailable(f"starting the sandbox: {error}") from error
            if archive is not None:
                sandbox.restore(archive)
            undo.pop_all()
        return sandbox

    def _prove_isolation(self, cluster: Cluster, container: _PodContainer) -> None:
        container.prove_isolation(self._targets(cluster), self._settings.policy_seconds)

    def adopt(self, session: str) -> _PodSandbox | None:
        with ExitStack() as undo:
            cluster = Cluster(self._namespace)
            undo.callback(cluster.close)
            pods = sorted(cluster.list_pods({SESSION_LABEL: session}), key=_get_age)
            usable = [_get_name(pod) for pod in pods if is_running(pod)][:1]
            for name in {_get_name(pod) for pod in pods} - set(usable):
                with suppress(SandboxError):
                    cluster.delete_pod(name)
            if not usable:
                return None
            undo.pop_all()
        container = _PodContainer(cluster, usable[0], self._spec, make_owner())
        container.assign_session(session)
        sandbox = _PodSandbox(container, self._spec)
        try:
            sandbox.kill_commands()
            # The worker may have been killed before this sandbox had proven its isolation.
            self._prove_isolation(cluster, container)
            sandbox.open_session()
        except SandboxError:
            sandbox.close()
            return None
        return sandbox


def _wait_for_start(cluster: Cluster, name: str, seconds: int) -> None:
    """Wait until the pod's container runs. Raises SandboxUnavailable, or SandboxGone."""
    until, (pause, longest) = time.monotonic() + seconds, _POLL_SECONDS
    while not is_running(pod := cluster.get_pod(name)):
        if reason := find_hopeless_state(pod):
            raise SandboxUnavailable(f"the sandbox's pod cannot start: {reason}")
        if time.monotonic() > until:
            raise SandboxUnavailable(
                f"the sandbox's pod has not started in {seconds} s: {describe_delay(pod)}"
            )
        time.sleep(pause)
        pause = min(pause * 1.2, longest)


def _get_name(pod: Pod) -> str:
    return str(pod.metadata.name if pod.metadata else "")


def _get_labels(pod: Pod) -> dict[str, str]:
    return dict((pod.metadata.labels if pod.metadata else None) or {})


def _get_age(pod: Pod) -> float:
    """Return the seconds since the pod was created."""
    created = pod.metadata.creationTimestamp if pod.metadata else None
    return time.time() - created.timestamp() if created else 0.0


def remove_stale_pods(
    older_than: float, session: str | None = None, namespace: str = ""
) -> list[str]:
    """Remove pods of killed workers, if they were made more than `older_than` seconds ago.

    With `session`, remove only that session's pods. Returns the sessions of the removed pods.
    Raises SandboxUnavailable.
    """
    labels = {SESSION_LABEL: session} if session else LABELS
    removed = []
    with closing(Cluster(namespace)) as cluster:
        for pod in cluster.list_pods(labels):
            pod_labels = _get_labels(pod)
            if _get_age(pod) <= older_than or SESSION_LABEL not in pod_labels:
                continue
            with suppress(SandboxError):
                cluster.delete_pod(_get_name(pod))
                removed.append(str(pod_labels[SESSION_LABEL]))
    return removed
