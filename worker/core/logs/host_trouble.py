"""Whether a log's line may tell of trouble of the network or the host. Pure.

Wide on purpose: it is asked before "infrastructure" is ruled out, so that a line too many costs
nothing, and a line too few a right answer.
"""

import re
from collections.abc import Iterable

LONGEST = 1000
"""The most characters of a line that are read."""

_TROUBLE = re.compile(
    # the network
    r"time(?:d[ -]?|[ -]?)out|timeout|deadline exceeded|\bE(?:AI_|CONN|TIMEDOUT|HOST|NET|PIPE)\w*"
    r"|(?:connect\w*|peer|host|network|socket|handshake|pull|fetch|download\w*|upload\w*|registry"
    r"|mirror|proxy|server|service)\b.{0,80}\b(?:refused|reset|closed|aborted|lost|unreachable"
    r"|fail\w*|denied|unavailable|unexpected(?:ly)?|not respond\w*|unauthorized|not available)"
    r"|(?:fail\w*|unable|cannot|can't|could not|couldn't|error)\b.{0,80}\b(?:connect\w*|reach"
    r"|resolve|download\w*|fetch\w*|pull\w*|clone|upload\w*|handshake|look ?up|contact)\b"
    r"|no such host|name resolution|not known|broken pipe|no route|\bdns\b|\btls\b|\bssl\b|x509"
    r"|certificate|rate.?limit|too ?many ?requests|quota|internal server error|bad gateway"
    r"|service unavailable|gateway time|\b(?:http|status|error|code|returned)\b.{0,20}\b"
    r"(?:401|403|407|408|429|5\d\d)\b|unexpected eof|remote end|hung up|rpc failed"
    # the host
    r"|\bkilled\b|\boom\b|out of memory|memory limit|cannot allocate|allocation fail|\bheap\b"
    r"|\benomem\b|no space|\benospc\b|disk|read-only file|input/output error|i/o error"
    r"|\bemfile\b|too many open files|resource temporarily|segmentation fault|segfault|bus error"
    r"|illegal instruction|core dumped|signal:? ?\d{0,2}\b|sig(?:kill|segv|term|bus|ill)\b"
    r"|exit (?:code|status) 1(?:3[0-9]|4[0-3])\b|evicted|preempted|\bdaemon\b|\bdocker\b|\bcuda\b"
    r"|\bgpu\b|device|display|license|licence|clock|\bexpired\b",
    re.IGNORECASE,
)


def may_tell_of_host(lines: Iterable[str]) -> bool:
    """Whether any of the lines may tell of trouble of the network or the host."""
    return any(_TROUBLE.search(line[:LONGEST]) for line in lines)
