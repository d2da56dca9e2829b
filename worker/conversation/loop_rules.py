"""What a turn puts up with before the model is told, or the run ends."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopRules:
    """The patience of one turn. Each is a setting of `limits:` or `loop:`."""

    hint_at: int = 3
    """This many same calls in a row are not run any more: the model is told so instead."""
    stop_at: int = 5
    """This many of them end the run."""
    empty_retries: int = 2
    """How often the model is reminded after an empty answer."""
    broken_answers: int = 3
    """This many cut or broken answers in a row end the run."""
    calls_per_answer: int = 64
    """The most tool calls of one answer; of an answer with more of them, none is run."""
    final_grace: float = 120.0
    """Seconds past the wall-clock limit that the final answer may take."""
