"""Makes the folds that `decide` asks for: the text that replaces messages, and the files in which
their results can still be read."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxNotStarted
from worker.conversation import prompts
from worker.conversation.absorb import charge_helper
from worker.conversation.context import Context
from worker.conversation.events import Stage, Watcher, ignore_event
from worker.conversation.folds.fold import Fold, FoldKind
from worker.conversation.folds.plan import estimate_size
from worker.conversation.folds.results import list_missing_files
from worker.conversation.folds.rule_summary import summarise_by_rules
from worker.conversation.folds.summary import (
    MOST_TOKENS,
    TASK,
    check_summary,
    split_messages,
    write_transcript,
)
from worker.conversation.messages import Message
from worker.conversation.model import Helper, HelperAnswer
from worker.conversation.saved_files import find_saved_files
from worker.errors import SandboxLost

log = logging.getLogger("sandpiper.turn")

_CHARACTERS_PER_TOKEN, _MOST_SHARE = 3, 0.7
"""How much of its window a helper is given, with a cautious estimate of characters per token."""


@dataclass(frozen=True, slots=True)
class FoldParts:
    """The parts that make folds. `helper` writes summaries; without one, rules do. `watch` is told
    of each fold."""

    redact: Callable[[str], str] = lambda text: text
    helper: Helper | None = None
    watch: Watcher = ignore_event


def make_fold(context: Context, planned: Fold, parts: FoldParts, *, drops_wire: bool) -> Context:
    """Return the context with the planned fold and its text. Raises nothing."""
    fold = replace(planned, drops_wire=drops_wire)
    if fold.leaves_out:
        context, fold = _write_text(context, fold, parts)
    folded = replace(context, folds=(*context.folds, fold), cache=None)
    size = estimate_size(folded)
    summary = f"conversation folded ({fold.kind}, {fold.upto - fold.start} messages)"
    log.info("session %s: %s, about %d tokens are left", context.session_id, summary, size)
    parts.watch(Stage(f"{summary}: about {size:,} tokens are left"))
    spent = replace(folded.turn_usage, context_tokens=size)
    # With the messages goes a warning that has stayed among them.
    return replace(
        folded, turn_usage=replace(spent, warned_share=0.0) if fold.leaves_out else spent
    )


def _write_text(context: Context, fold: Fold, parts: FoldParts) -> tuple[Context, Fold]:
    before = next((each for each in reversed(context.folds) if each.leaves_out), None)
    since = before.upto if before else fold.start
    stretch = [
        message
        for index, message in enumerate(context.messages[since : fold.upto], since)
        if index not in fold.kept_messages
    ]
    earlier_text = before.text if before and fold.kind is not FoldKind.WINDOW else ""
    text, by_model = "", False
    if fold.kind is not FoldKind.WINDOW:
        answers: list[HelperAnswer] = []
        text = _summarise(stretch, earlier_text, fold, parts, answers)
        by_model = bool(text)
        text = text or summarise_by_rules(stretch, earlier_text)
        context = charge_helper(context, "summary", answers)
    hidden = context.messages[fold.start : fold.upto]
    written = prompts.tell_fold(
        len(hidden) - len(fold.kept_messages),
        text,
        _list_files(hidden, context, fold),
        by_model=by_model,
    )
    return context, replace(fold, text=parts.redact(written))


def _list_files(hidden: Sequence[Message], context: Context, fold: Fold) -> Sequence[str]:
    """List the files with the results that are left out, the newest last."""
    written = [path for path, _ in list_missing_files(context.messages, [fold])]
    return [*find_saved_files(hidden), *written]


def _summarise(
    stretch: Sequence[Message],
    before: str,
    fold: Fold,
    parts: FoldParts,
    answers: list[HelperAnswer],
) -> str:
    """Return the helper's summary, "" if there is none or it fails the check.

    The helper's answers, which have their cost, are added to `answers`.
    """
    if parts.helper is None:
        return ""
    texts = [before] if before else []
    whole = "\n\n".join([*texts, *write_transcript(stretch)])
    room = int(parts.helper.context_tokens * _MOST_SHARE * _CHARACTERS_PER_TOKEN)
    most = room // 2 if fold.kind is FoldKind.RECURSIVE else room
    if len(whole) <= most:
        return _ask_helper(whole, whole, parts.helper, answers)
    for cluster in split_messages(stretch, most):
        text = "\n\n".join(write_transcript(cluster))[:most]
        texts.append(_ask_helper(text, text, parts.helper, answers) or summarise_by_rules(cluster))
    return _ask_helper("\n\n".join(texts)[:room], whole, parts.helper, answers)


def _ask_helper(text: str, source: str, helper: Helper, answers: list[HelperAnswer]) -> str:
    answer = helper.ask(TASK, text, MOST_TOKENS)
    if answer is None:
        return ""
    answers.append(answer)
    return check_summary(answer.text, source)


class FoldedResults:
    """Writes the folded results that are in no file into the sandbox, before it is used.

    This is not done when the fold is made: the sandbox need not be running then, and one that is
    adopted or restored may lack the files of earlier folds.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._written: set[str] = set()

    def write_missing(self, context: Context) -> None:
        """Write the results that this run has not written yet. Raises SandboxLost."""
        if not context.folds:
            return
        for path, content in list_missing_files(context.messages, context.folds):
            if path not in self._written:
                self._written.add(path)
                self._write(path, content)

    def _write(self, path: str, content: str) -> None:
        try:
            self._sandbox.put(path, [content.encode(errors="replace")])
        except SandboxGone as error:
            has_run = not isinstance(error, SandboxNotStarted)
            raise SandboxLost(str(error), has_run=has_run) from error
        except (SandboxError, ValueError) as error:
            log.warning("%s not written: %s", path, error)
