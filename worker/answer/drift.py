"""What a cause blames on something new that was installed, held against what was. Pure.

"Infrastructure" may mean that a release, an image or a runner has changed since the job passed.
Where both logs name the thing that is blamed, and it is the same, that is not so.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from worker.verdict.facts import Installed
from worker.verdict.remarks import Remark, name, remark
from worker.verdict.verdict import Ruling, Verdict

MAX_CAUSE = 4_000
"""The most characters of a cause that are read."""

_NEW = r"\b(?:new|newer|newest|latest|later|updated|upgraded|different|changed|another)\s"
_NAME = r"[`'\"“]?([\w@][\w@./+:=-]{1,99})"
_END = r"[`'\"”]?"
_HAPPENED = (
    r"\s(?:was|has\sbeen|had\sbeen|got)\s(?:\w{1,20}ly\s|just\s)?(?:released|updated|upgraded"
    r"|bumped|published|rebuilt|moved|replaced|changed|re-?tagged)\b"
)
_BLAMED = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_NEW}(?:\w{{1,20}}\s)?(?:release|version|build)\sof\s(?:the\s|a\s)?{_NAME}",
        rf"{_NEW}{_NAME}{_END}\s(?:release|version|image|build)\b",
        rf"{_NEW}(?:\w{{1,20}}\s)?(image|runner)\b",
        rf"{_NAME}{_END}(?:\s(?:image|package|release))?(?:\sv?\d[\w.]{{0,40}})?{_HAPPENED}",
        rf"\b(image|runner){_HAPPENED}",
        rf"\b(?:up(?:grade|date)|bump|release)\s(?:of|to)\s(?:the\s|a\s|an\s|new\s)?{_NAME}",
    )
)

_DENIED = re.compile(r"\b(?:no|not|nor|neither|without|never)\b[^.;]{0,10}$", re.IGNORECASE)


def hold_against_installed(ruling: Ruling, verdict: Verdict, cause: str) -> Ruling:
    """Return `ruling`; if `verdict` is infrastructure and `cause` blames a thing that both logs
    name and that has not changed since the job passed, with that refuted."""
    blamed = {_normalise(each) for each in _list_blamed(cause)}
    same = [each for each in ruling.same_as_passed if _list_names(each) & blamed]
    if verdict is not Verdict.INFRASTRUCTURE or ruling.hard or not same:
        return ruling
    why = (verdict, _tell_same(same[0], ruling.last_pass))
    return replace(
        ruling,
        contradictions=(why, *ruling.contradictions),
        refuted_verdicts=ruling.refuted_verdicts | {verdict},
    )


def _list_blamed(cause: str) -> Iterator[str]:
    text = re.sub(r"\s+", " ", cause[:MAX_CAUSE])
    for form in _BLAMED:
        for found in form.finditer(text):
            if not _DENIED.search(text[max(0, found.start() - 20) : found.start()]):
                yield found[1]


def _list_names(installed: Installed) -> set[str]:
    """Return the names by which a cause may mean it: an image and a runner also by that word."""
    kind = {installed.kind} & {"image", "runner"}
    return {_normalise(installed.name), _normalise(installed.name.rpartition("/")[2]), *kind}


def _normalise(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text.partition("==")[0].strip(".,;:").lower())


def _tell_same(installed: Installed, last_pass: Remark) -> Remark:
    if installed.kind == "runner":
        return remark("it ran on the same runner as ", *last_pass, ", which passed")
    what = name(f"{installed.name} {installed.version}")
    words = " is the image of " if installed.kind == "image" else " was installed in "
    return remark(what, words, *last_pass, " too, which passed")
