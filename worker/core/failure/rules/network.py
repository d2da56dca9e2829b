"""A registry or GitLab itself could not be reached by the runner, before the script began."""

from worker.core.failure.rules.base import Rule, compile_patterns
from worker.core.failure.rules.quota import PREPARING
from worker.core.finding import Verdict

_DOWN = (
    r"(?:no such host|i/o timeout|connection refused|connection reset by peer|TLS handshake timeout"
    r"|temporary failure in name resolution|server misbehaving|network is unreachable"
    r"|50[0234] (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)"
    r"|Client\.Timeout exceeded|context deadline exceeded)"
)

RULES = (
    Rule(
        name="registry-unreachable",
        verdict=Verdict.INFRASTRUCTURE,
        cause="The runner could not reach the container registry to get the job's image.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or the registry.",
        reasons=PREPARING,
        lines=compile_patterns(
            rf"failed to pull image .{{0,500}}{_DOWN}",
            rf"image pull failed.{{0,500}}{_DOWN}",
            rf"error response from daemon: .{{0,300}}/v2/.{{0,300}}{_DOWN}",
        ),
    ),
    Rule(
        name="repository-unreachable",
        verdict=Verdict.INFRASTRUCTURE,
        cause="The runner could not fetch the repository from GitLab.",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners or GitLab.",
        reasons=PREPARING,
        lines=compile_patterns(
            r"^fatal: unable to access '.{1,300}': (?:Could not resolve host|Failed to connect"
            r"|Connection timed out|Recv failure|Operation timed out|The requested URL returned"
            r" error: 50\d|SSL_ERROR_SYSCALL|OpenSSL SSL_connect)",
            r"^(?:error|fatal): RPC failed; (?:curl|HTTP) (?:\d{2} |50\d)",
        ),
    ),
)
