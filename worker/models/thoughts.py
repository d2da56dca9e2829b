"""Takes the thoughts of a model out of the text of its answer. Pure.

A server that does not take them out leaves them there, in the marks that the model was trained on.
Where the template has opened them already, the answer begins in thoughts, and has only the mark at
their end. What an answer quotes in a fence, in code within a line or in a list stays as it is.
"""

import re

_TAG = r"(?:[a-z]{2,12}:)?(?:think(?:ing)?|thoughts?|reasoning|scratchpad)"
_FORMS = {
    "tag": (rf"<{_TAG}>", rf"</{_TAG}>"),
    "bracket": (r"\[THINK\]", r"\[/THINK\]"),
    "triangle": (r"◁think▷", r"◁/think▷"),
    "token": (
        r"<\|(?:START_THINKING|begin_of_thought)\|>",
        r"<\|(?:END_THINKING|end_of_thought)\|>",
    ),
    "turn": (r"<\|channel>thought\b", r"<channel\|>"),
    "channel": (
        r"(?:<\|start\|>assistant)?<\|channel\|>analysis\b[^<\n]{0,80}<\|message\|>",
        r"<\|end\|>",
    ),
}
"""What begins thoughts, and what ends them."""

_CLOSERS = {name: re.compile(closes, re.IGNORECASE) for name, (_, closes) in _FORMS.items()}
_STRAY = "|".join(closes for name, (_, closes) in _FORMS.items() if name != "channel")
_OPENERS = "|".join(f"(?P<{name}>{opens})" for name, (opens, _) in _FORMS.items())
_OPENER = re.compile(_OPENERS, re.IGNORECASE)
_CLOSER = re.compile(_STRAY, re.IGNORECASE)
_NEXT = re.compile(
    rf"(?P<fence>^[ \t]{{0,20}}(?:`{{3,}}|~{{3,}}))|(?P<code>`[^`\n]{{1,200}}`)"
    rf"|{_OPENERS}|(?P<stray>{_STRAY})",
    re.IGNORECASE | re.MULTILINE,
)

_VERDICT = re.compile(r"^[ \t#*_]{0,12}verdict\b", re.IGNORECASE | re.MULTILINE)
"""An answer with sections begins with this one: what stands before it is none of the answer."""

_ITEM = re.compile(r"[ \t]{0,20}(?:[-+*>|]|\d{1,3}[.)])|[ \t]{1,20}$")
_CALL = re.compile(
    r"^(?:(?:`{3,}|~{3,})tool_call|<(?:tool_call|function)|\[TOOL_CALLS\]|<｜|<\|tool)",
    re.MULTILINE,
)
"""A call that a model makes without ending its thoughts."""

_FRAME = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>final\b[^<\n]{0,80}<\|message\|>|<\|return\|>"
    r"|<\|end\|>|<\|(?:START|END)_(?:RESPONSE|TEXT)\|>|<\|(?:begin|end)_of_solution\|>"
    r"|</?answer>)"
)
_FRAMED = re.compile(rf"\s*{_FRAME}|{_FRAME}\s*\Z")
"""What stands around the answer itself."""

_BARE = ("analysis", "assistantfinal")
"""What is left of channels if the server leaves out their marks."""


def remove_thoughts(text: str) -> str:
    """Return an answer without its thoughts; a text without any comes back as it is."""
    if text.startswith(_BARE[0]) and _BARE[1] in text:
        return text.partition(_BARE[1])[2].strip()
    if not (_OPENER.search(text) or _CLOSER.search(text) or text.startswith("<|")):
        return text
    left = _take_out(text)
    while frame := _FRAMED.match(left):
        left = left[frame.end() :]
    if frame := _FRAMED.search(left, max(0, len(left) - 40)):
        left = left[: frame.start()]
    return left.strip()


def _take_out(text: str) -> str:
    verdict = max((found.start() for found in _VERDICT.finditer(text)), default=-1)
    said: list[str] = []
    at = start = 0
    has_fences = True
    while found := _NEXT.search(text, at):
        at, form = found.end(), found.lastgroup
        if form == "fence" and has_fences:
            end = _find_fence_end(text, found)
            has_fences = end > 0
            if odd := _find_odd_closer(text, at, end, verdict):
                said, start = [], odd
            at = odd or end or at
        elif form == "stray" and _ends_thoughts(text, found, verdict):
            said, start = [], at
        elif form in _FORMS and not _get_line_before(text, found, start):
            said.append(text[start : found.start()])
            at = start = _find_end(text, at, form)
    return "".join([*said, text[start:]])


def _find_end(text: str, at: int, form: str) -> int:
    """Return where thoughts that begin at `at` end: at their mark, else at a call, else with the
    text."""
    if closer := _CLOSERS[form].search(text, at):
        return closer.end()
    call = _CALL.search(text, at)
    return call.start() if call else len(text)


def _find_fence_end(text: str, opened: re.Match[str]) -> int:
    """Return the end of a fence; 0 if it is never closed."""
    mark = opened[0].strip()
    closed = re.compile(rf"^[ \t]{{0,20}}{mark}[`~]{{0,20}}[ \t]{{0,20}}$", re.MULTILINE)
    found = closed.search(text, opened.end())
    return found.end() if found else 0


def _find_odd_closer(text: str, at: int, end: int, verdict: int) -> int:
    """Return the end of a mark without a beginning in a fence, if the answer begins after it; else
    0. Then the fence is one of the thoughts, which they leave open."""
    closer = _CLOSER.search(text, at, min(end, max(verdict, 0)))
    return closer.end() if closer and not _OPENER.search(text, at, closer.start()) else 0


def _ends_thoughts(text: str, closer: re.Match[str], verdict: int) -> bool:
    before = _get_line_before(text, closer, 0)
    return closer.end() < verdict or not _ITEM.match(before)


def _get_line_before(text: str, found: re.Match[str], start: int) -> str:
    """Return what stands before a mark on its line, from `start` on."""
    return text[max(start, text.rfind("\n", 0, found.start()) + 1) : found.start()]
