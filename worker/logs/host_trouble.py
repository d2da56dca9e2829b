"""Whether a log's line may tell of trouble of the network or the host. Pure.

Wide on purpose: it is asked before "infrastructure" is ruled out, so that a line too many costs
nothing, and a line too few a right answer.
"""

import re
from collections.abc import Iterable

LONGEST = 1000
"""The most characters of a line that are read."""

_OUTSIDE = re.compile(
    # the network
    r"time(?:d[ -]?|[ -]?)out|timeout|deadline exceeded|\bE(?:AI_|CONN|TIMEDOUT|HOST|NET|PIPE)\w*"
    r"|(?<![\w/.-])(?:connect\w*|peer|hosts?|network|socket|handshake|pull|download\w*|upload\w*"
    r"|registry|mirror|proxy|server|service)(?![\w/.]).{0,80}\b(?:refused|reset|closed|aborted"
    r"|lost|unreachable|failed|denied|unavailable|unexpectedly|not respond\w*|not available)"
    r"|\b(?:fail(?:ed|ure|s)? to|unable to|cannot|can't|could not|couldn't) (?:\w{1,20} )?"
    r"(?:connect|establish|reach|resolve (?:host|proxy|name)|download|fetch|pull|clone|upload"
    r"|handshake|look ?up|contact)\b"
    r"|no such host|name resolution|name or service|broken pipe|no route|\bdns\b"
    r"|\btls\b|\bssl\b|x509|certificate|rate.?limit|too ?many ?requests|quota exceeded"
    r"|internal server error|bad gateway|service unavailable|gateway time|rpc failed"
    r"|\b(?:http|status|code|returned)\b.{0,20}\b(?:401|403|407|408|429|5\d\d)\b"
    r"|unexpected eof|remote end|hung up"
    # the host
    r"|read-only file|input/output error|i/o error|evicted|preempted|\bdaemon\b|docker\.sock"
    r"|no such device|device (?:not|busy|unavailable)|(?:open|no) display"
    r"|licen[cs]e (?:server|expired|error|checkout)|clock (?:skew|drift)|\bexpired\b",
    re.IGNORECASE,
)
_USED_UP = re.compile(
    r"\bkilled\b|\boom(?:killed)?\b|out of memory|memory limit|cannot allocate|allocation fail"
    r"|heap (?:limit|space|out)|\benomem\b|no space|\benospc\b|\bdisk (?:full|quota|space|i/o)"
    r"|\bemfile\b|too many open files|resource temporarily|segmentation fault|segfault|bus error"
    r"|illegal instruction|core dumped|\bsignal:? ?(?:\d|kill|term|segv|bus|ill|abrt)"
    r"|sig(?:kill|segv|term|bus|ill)\b|exit (?:code|status) 1(?:3[0-9]|4[0-3])\b|\bcuda\b|\bgpu\b",
    re.IGNORECASE,
)
"""How a program ends that lacks something: the host may be too small, or the program too greedy."""


def may_tell_of_host(lines: Iterable[str]) -> bool:
    """Whether any of the lines may tell of trouble of the network or the host."""
    return any(_OUTSIDE.search(line[:LONGEST]) or _USED_UP.search(line[:LONGEST]) for line in lines)


def tells_of_host(lines: Iterable[str]) -> bool:
    """Whether any of the lines tells of trouble of the network or the host that is not the job's
    own doing, as want of memory may be."""
    return any(_OUTSIDE.search(line[:LONGEST]) for line in lines)
