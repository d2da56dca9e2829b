"""Classifies a line of a failed job's log by its form: a failed test, an error, trouble of the
host, or the noise that a tool writes after any error. Pure."""

import re
from collections.abc import Iterable

from worker.logs.normal_form import LONGEST

_NUMBER = re.compile(r"^\d{1,9}:(?: |$)")
_PREFIX = re.compile(
    r"^(?:vet: |\(\d\d:\d\d:\d\d\) |[├┊] (?=[^─\s])|\[xUnit\.net [\d:.]{5,20}\]\s{1,9}"
    r"|#\d{1,4} (?:\d{1,6}\.\d{1,4} )?|(?:==>|-->) [\w.-]{1,80}: "
    r"|Build '[^']{1,100}' errored after [\w ]{1,60}: "
    r"|\[ERROR\] Failed to execute goal .{1,300}? on project [\w.:-]{1,100}: )"
)
_SUFFIX = re.compile(r"(?: -> \[Help \d\]| \(attempt \d{1,4} of \d{1,4}\))+\.?$")
"""What a tool writes around an error: the goal that failed, the step of a build, the attempt, a
frame or a clock."""

_ROW = re.compile(
    r"(?:✘ {1,5}\d{1,5} |\d{1,5}\) )?"
    r"(?P<test>\[[^\]]{1,40}\] › \S{1,300}:\d{1,7}:\d{1,7} › .{1,300}?)"
    r"(?: \(retry #\d{1,3}\))?(?: \(\d[\d.]{0,9}(?:ms|s|m)\))?(?: ─{1,300})?$"
    r"|\d\d:\d\d \+\d{1,6}(?: ~\d{1,6})?(?: -\d{1,6})?: (?P<flutter>\S{1,300}: .{1,300} \[E\])$"
    r"|\*\* (?P<cocotb>\S{1,300} +FAIL) +[\d.]{1,12} +[\d.]{1,12} +[\d.]{1,12} +\*\*$"
)
"""A failed test of Playwright's, Flutter's or cocotb's, whose row has numbers and times of its
own."""

_BLOCK = re.compile(r"\d{1,5}\) \[")

GAP = "…"
"""What stands for lines that an excerpt leaves out."""

NOISE = re.compile(
    r"(?:error:? |fatal:? |##\[error\])?(?:job failed|build failed|process (?:completed|exited|\")|"
    r"command (?:failed|exited)|script (?:failed|exited|returned)|the command .{1,200} (?:exited|"
    r"returned)|cleaning up|uploading|exited? with|exit (?:code|status)|make(?:\[<n>\])?: \*\*\*|"
    r"[\w.-]{0,40}: \*\*\* \[|elifecycle|no files to upload|.{0,40}returned (?:a )?non-zero)"
    # Maven
    r"|\[error\] (?:->|\[help <n>\]|to see the full stack trace|re-run maven|for more information"
    r"|after correcting|please refer|there are test failures|mvn <args>|tests run:|failures:"
    r"|errors:)|there are test failures|compilation failure$|tests run: "
    # npm, yarn, pnpm
    r"|npm (?:err!|error) (?:code|errno|syscall|path|command|workspace|location|lifecycle script"
    r"|a complete log|to correct|npm login|this is .{0,9}not a problem|exit status|failed at the"
    r"|test failed|\S{1,200}: `|$)|.{0,20}command failed with exit code|error command failed"
    # Gradle
    r"|failure: build (?:failed|completed)|execution failed for task"
    r"|> there were failing tests|> run with |\* (?:try|what went wrong|exception is)"
    r"|get more help|build failed in"
    # Cargo
    r"|error: (?:test failed, to rerun|could not compile|aborting due to|\S{1,40} target failed)"
    r"|for more information about this error|test result: failed|note: run with"
    # Go: the package of a failed test or build, after its errors
    r"|fail\s(?:\S{1,300}\s)?(?:\[(?:build|setup) failed\]|<n>)|fail$"
    # Docker: the step, once more
    r"|error: (?:failed to solve|failed to build)|error: process \""
    # .NET: what is below it; PHPUnit, XCTest: its count
    r"|error message:$|tests: <n>,? assertions: |executed <n> tests?, with <n> failures?"
    r"|test suite '.{1,200}' failed at"
    # R, Cabal, dbt: the whole, after its errors
    r"|running the tests in .{1,100} failed\.$"
    r"|(?:error: cabal: )?failed to build \S{1,100} from \S{1,100}$"
    r"|error: \[cabal\S{1,8}\]$|<time> done\. pass=|<time> completed with <n> errors?"
    # Jest: what a test printed; Julia: the whole; Lua, Packer: what comes before or after
    r"|● console$|error: (?:package \S{1,100} errored during testing|loaderror: some tests did not)"
    r"|stack traceback:$|==> some builds didn't complete|\*\* tests=<n>"
    # Flutter, tox, Bazel, Nix: the whole, after its errors; Flutter: a banner before it
    r"|.{0,30}some tests failed\.$|══╡ exception caught by|test failed\. see exception logs"
    r"|when the exception was thrown|\S{1,60}: fail code <n>|evaluation failed"
    r"|error: build did not complete successfully|error: some checks failed"
    # Ansible: a condition that it waits for; Molecule: the step, after its errors
    r"|failed - retrying: |error +\S{1,80} ➜ \w{1,40}: executed: failed"
    r"|\S{0,40}recipe for target|ninja: build stopped"
    r"|make(?:\[<n>\])?: target .{1,200} not remade because of errors"
    # V8: its last garbage collections before it has no memory
    r"|\[<n>:<id>\] +<n> ms: (?:mark-compact|scavenge)"
    # Rake, Ninja, Xcode: the whole, or the target, before or after its errors
    r"|rake aborted!$|tasks: top => |failed: (?:\[code=<n>\] )?\S{1,300}(?: \S{1,300}){0,8}$"
    r"|\*\* [a-z ]{3,30} failed \*\*"
    # Services of the job, whose state is the runner's to report
    r"|\[service:|\*\*\* warning: service |health check |service container logs"
    r"|service \"runner-|service runner-",
    re.IGNORECASE,
)
"""What a build tool writes after the errors, whatever they were."""

DEADLY = re.compile(
    r"(?:.{0,300}[\s:\])])?(?:Killed|Segmentation fault|Bus error|Illegal instruction|Aborted"
    r"|Floating point exception|Trace/breakpoint trap)(?: \(core dumped\)|: \d{1,3})?$"
    r"|.{0,300}(?:\bOOMKilled\b|signal(?::| terminated| \d{1,2}| \")? ?\"?(?:killed|SIGKILL|SIGSEGV"
    r"|SIGABRT|SIGBUS|SIGILL)\b|\bKilled signal terminated program\b|\bheap out of memory\b)"
    r"|(?:(?:==\d{1,10}==|<n>)?(?:ERROR|WARNING|SUMMARY): \w{1,30}Sanitizer: "
    r"|WARNING: DATA RACE|[^\s:]{1,300}:\d{1,7}(?::\d{1,7})?: runtime error: "
    r"|panic: |fatal error: |SIG[A-Z]{3,4}: |\S{1,300}: \[BUG\] )"
)
"""How a program dies, or what its sanitizer, its race detector or its runtime reports: an error
whatever else is in the log."""

REASON = re.compile(
    r"(?:ERROR|FATAL): Job failed(?: \([a-z ]{1,40}\))?: (?!exit (?:code|status) "
    r"|command terminated with exit code |process exited with |execution took longer than )",
    re.IGNORECASE,
)
"""The runner's own reason for a failure, unless it is only an exit code or a time limit."""

WEAK = re.compile(
    r"> Task \S{1,200} FAILED$"
    r"|_{3,80} (?:ERROR at (?:setup|teardown) of )?(?P<test>.{1,300}?) _{3,80}$"
)
"""An error only if the log has no better one: a failed step of Gradle's, or the heading above
pytest's details of a `test`."""

TEST = re.compile(
    r"FAILED (?!- RETRYING: )|ERROR \S{1,300}\.py::|FAIL: |--- FAIL: |(?:\s|^)[✕✗✖✘●] |not ok "
    r"|\[ERROR\] \S{1,200} .{0,60}<<< (?:FAIL|ERR)"
    r"|.{1,200} > .{1,200} FAILED$|---- .{1,200} stdout ----|rspec \./"
    # GoogleTest
    r"|\[ {2}FAILED {2}\] [A-Za-z_][\w/]{0,200}\.\w"
    # Flutter, Vitest, CTest, Playwright
    r"|\S{1,300}_test\.dart: .{1,300} \[E\]$|FAIL {1,4}\S{1,300}\.[cm]?[jt]sx? > "
    r"|\d{1,6}/\d{1,6} Test +#\d{1,6}: .{1,200}\*\*\*"
    r"|\[[^\]]{1,40}\] › \S{1,300}:\d{1,7}:\d{1,7} › "
    # PHPUnit, ExUnit, .NET
    r"|\d{1,5}\) [\w\\]{1,200}::|\d{1,5}\) (?:test|property|doctest) .{1,250} \([\w.]{1,200}\)$"
    r"|(?=\w{1,200}[.+])[\w.+]{3,400}(?:\(.{0,300}\))? \[FAIL\]$"
    r"|Failed \S.{0,300} \[(?:< )?\d[ \w]{0,30}\]$"
    # cocotb, Julia, minitest, testthat, XCTest
    r"|[\w.]{1,300}\.\w{1,200} +FAIL$"
    r"|.{1,200}: (?:Test Failed|Error During Test) at \S{1,300}:\d{1,7}$"
    r"|[\w:]{1,200}#test_.{1,200} \[\S{1,300}:\d{1,7}\]:$"
    r"|── (?:Failure|Error) \('?\S{1,300}:\d{1,7}:\d{1,7}'?\): "
    r"|[^\s:]{1,300}:\d{1,7}: error: (?:-\[[\w.]{1,200} \w{1,200}\]|\w{1,200}\.\w{1,200}) : "
)
"""A line that names a failed test."""

SERVER_SAID = (
    r"remote: .{0,200}\b(?:not allowed|denied|forbidden|(?i:error)|not found|could not be found"
    r"|invalid|expired|blocked)\b|Temporary failure resolving '"
)
"""Why a Git server refuses something, and what apt says if it finds no server."""

JOB_FAILED = re.compile(r"(?:ERROR|FATAL): Job failed\b")
"""How the runner's last line of a failed job begins."""

PLAIN = re.compile(
    r"(?:E {1,8})?[A-Za-z_][\w.$]{0,120}(?:Error|Exception|Failure|Failed)\b(?:$|:| )"
    r"|(?:npm (?:ERR!|error)|ERROR:|FATAL:|fatal:|Error:|curl: \(|wget: )"
    r"|assertion .{1,200} failed|Jest: .{1,80} threshold for .{1,80} not met|ESLint couldn't "
    r"|error: builder for '|Fingerprint: \S|pyproject\.toml changed significantly since "
    r"|\S{1,300} - \w{1,80} \S{1,200} (?:is invalid|failed validation): "
    r"|(?:\S{1,200}: line|(?:/\S{1,200}/)?\w{0,8}sh:) \d{1,7}: +(?!.{0,40}(?i:warning))\S|"
    + SERVER_SAID
)
"""A line that begins with an exception or with a tool's word for an error, or in which a shell says
what is wrong in a script, such as a killed program or a variable that is not set."""

LOCATED = re.compile(
    r"[^\s:]{1,200}:\d{1,7}(?::\d{1,7})?:? (?:fatal )?[Ee]rror\b|error\[\w{1,12}\]: "
    r"|[^\s:(]{1,200}\(\d{1,7},\d{1,7}\): error\b|[A-Z]{1,5}\d{2,5} (?:\[\*\] )?\S"
)
"""An error of a compiler, a type checker or a linter, with its place or its code."""

PLACED = re.compile(r"[^\s:(]{1,200}\.\w{1,12}(?::\d{1,7}(?::\d{1,7})?|\(\d{1,7},\d{1,7}\)): \S")
"""An error that begins with its place in a file."""

TROUBLE = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|unable to|refused|denied|not found|no such|timed out"
    r"|exceeded|expired|unauthorized|forbidden|mismatch|invalid|unexpected|missing|already exists"
    r"|does not|doesn't|did not|is not|isn't|must|gateway timeout|bad gateway|unavailable"
    r"|insufficient|is (?:empty|required|outdated))\b",
    re.IGNORECASE,
)


def strip_line(line: str) -> str:
    """Return a line without its number and without what a tool writes around its error."""
    text = _NUMBER.sub("", line[: 4 * LONGEST].strip(), 1).strip()
    if row := _ROW.match(text):
        return str(row[row.lastgroup or 0])
    return _SUFFIX.sub("", _PREFIX.sub("", text, 1)).strip()


def is_row(line: str) -> bool:
    """Whether a line only names a failed test. How it failed stands elsewhere in the log; for
    Playwright, in a block that begins with a number and a bracket."""
    text = _NUMBER.sub("", line[:LONGEST], 1).strip()
    return _ROW.match(text) is not None and not _BLOCK.match(text)


# ------------------------------------------------------------- trouble of the network or the host

# Wide on purpose: it is asked before "infrastructure" is ruled out, so that a line too many costs
# nothing, and a line too few a right answer.

_READ = 1000
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
    return any(_OUTSIDE.search(line[:_READ]) or _USED_UP.search(line[:_READ]) for line in lines)


def tells_of_host(lines: Iterable[str]) -> bool:
    """Whether any of the lines tells of trouble of the network or the host that is not the job's
    own doing, as want of memory may be."""
    return any(_OUTSIDE.search(line[:_READ]) for line in lines)
