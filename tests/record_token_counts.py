"""Counts the tokens of `token_conversations`:  python -m tests.record_token_counts

Needs what is no dependency of the project: `tokenizers`, `mistral-common` and `sentencepiece`, and
the file tokenizer.json that `anthropic` 0.34 had, in the current folder.
"""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from tests.token_conversations import COUNTS, list_texts, make_conversations

PER_MESSAGE = 6
"""Tokens around the text of a message."""


def load_counters() -> dict[str, Callable[[str], int]]:
    """The tokenizers, by name."""
    claude = import_module("tokenizers").Tokenizer.from_file("tokenizer.json")
    data = Path(import_module("mistral_common").__file__ or "").parent / "data"
    tekken = import_module("mistral_common.tokens.tokenizers.tekken").Tekkenizer
    tekken = tekken.from_file(str(data / "tekken_240911.json"))
    pieces = import_module("sentencepiece").SentencePieceProcessor(
        model_file=str(data / "mistral_instruct_tokenizer_240323.model.v3")
    )
    return {
        "claude": lambda text: len(claude.encode(text).ids),
        "tekken": lambda text: len(tekken.encode(text, bos=False, eos=False)),
        "sentencepiece": lambda text: len(pieces.encode(text)),
    }


def main() -> None:
    """Writes the table: for each conversation and tokenizer the tokens that each request adds."""
    counters = load_counters()
    counts = {
        name: {
            tokenizer: [
                sum(PER_MESSAGE + sum(map(count, list_texts(message))) for message in added)
                for added in requests
            ]
            for tokenizer, count in counters.items()
        }
        for name, requests in make_conversations().items()
    }
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
