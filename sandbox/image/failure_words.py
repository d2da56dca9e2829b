"""The words by which a line of a log looks like a failure, and how much it does.

One lexicon for both readers of logs: the host, whose preview weighs the lines around each line as
well, and the sandbox's `log`, which rates each shape of a line by itself. Lower case.
"""

import re


def _split(words: str) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in words.split("|"))


LOUD = _split("error|fail|fatal|panic|exception|traceback|assert|not ok")
"""Words of failure."""

SIGNS = _split("✗|✖|✕|●|[-]|***| err")
"""How tools mark a failure, and other lines as well: loud where the lines around are weighed."""

HARD = _split(
    "cannot|can't|could not|not found|no such|undefined|unresolved|denied|refused|timed out|invalid"
    "|unexpected|mismatch|killed|segmentation|core dump|abort|out of memory|no space|rejected"
    "|but was|violation|not installed|[bug]"
)
"""Words of trouble."""

HARD_IN_CONTEXT = _split(
    "couldn't|unable|does not|doesn't|did not|exit code|exited with|exit status|status code|broken"
    "|incorrect|illegal|caused by|undeclared|dead|unbound|no module|is not a|not met"
)
"""Words of trouble that are also said of other things, so that the lines around must be weighed."""

SOFT = _split(
    "warning:|should |expected|unknown|missing|differ|unsupported|conflict|timeout|must |required"
    "|outdated|please update"
)
"""Words that may tell of trouble or of none."""

_HARD_ALONE = _split("unable to|timeout|! |*** |cve-|unbound variable|no module named|is outdated")
"""Words of trouble of a line that is rated by itself."""

_CALM = re.compile(
    rb"\b(?:0|no|zero|without) (?:\w+ )?(?:errors?|fail\w*|exceptions?|warnings?)\b"
    rb"|(?:errors?|fail\w*|exceptions?)\W{1,4}0\b|\bwarn(?:ing)?\b|\bdeprecat|\bdebug\b|\binfo\b"
    rb"|-werror|error[_-]?(?:handler|log|page|prone)|\bpassed\b|\bok\b|\bcompiling\b|\bdownload",
)
_FINE = re.compile(
    rb"\s*(?:\xe2\x9c[\x93\x94]|\xe2\x88\x9a)(?!.*(?:\xe2\x9c[\x97\x98]|fail(?:ed|ures?)\b))"
    rb"|\s*--- pass: |\[ {2,9}ok \]"
    rb"|\s*(?:downloaded|downloading|compiling|checking|fetching|fetched|copying path|building"
    rb"|installing|unpacking) (?!fail|error)[\w@'\"/.#-]{1,200}(?: v?#\S*|\.\.\.)(?: \.\.\.)?\s*$"
)
"""A test that passed, or a package that is fetched or built; its name may say anything."""

_STARTS = re.compile(
    rb"\W{0,6}(?:error|fatal|fail|panic|traceback|exception|caused by|not ok|e  )|\S+error:"
)
_PLACED = re.compile(rb"(?:vet: )?[\w./\\@-]{1,200}\.\w{1,8}(?::#|\(#\)): \S")
"""The shape of a line that begins with a place in a file, such as a linter's finding."""

_ADDRESS = re.compile(rb"https?://[^\s\"'<>]+")
"""An address. Its words, such as those of a package called error-ex, are not what happened."""

_TRAILER = re.compile(
    rb"\[error\] *(?:->|\[help #?|to see the full|re-run maven|for more information"
    rb"|after correcting|mvn <args>|see (?:/|#|dump files)|please refer to|$)"
    rb"|npm (?:err!|error) a complete log|\* try:|> run with --|run gradle"
)
"""What a build tool writes after any failure."""

_ENDING = re.compile(rb"exit(?:ed)? (?:with|code|status)|job failed|returned (?:a )?non-zero")


def rate_shape(shape: bytes) -> float:
    """Rate how much the shape of a line (see `log_text.compute_shapes`) looks like a failure; 0 if
    it does not."""
    text = _ADDRESS.sub(b"", shape[:300].lower())
    if _FINE.match(text) or _TRAILER.match(text):
        return 0.0
    loud = any(word in text for word in LOUD)
    if not loud and not any(word in text for word in (*HARD, *_HARD_ALONE)):
        return 0.8 if _PLACED.match(text) and not _CALM.search(text) else 0.0
    weight = 2.0 if loud else 1.0
    if _CALM.search(text):
        weight -= 1.5
    if _STARTS.match(text):
        weight += 1.5
    if _ENDING.search(text):
        weight -= 0.7
    return max(weight, 0.0)
