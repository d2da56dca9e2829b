"""A language model of half a megabyte that says what it is told to: for llama.cpp's own server.

It is a real GGUF file, of the architecture `llama`, with one layer whose weights are zero. What
remains is a table: the token after a token. An answer is one token of the vocabulary, and which one
follows is decided by the mark with which the chat template ends the prompt.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CALL, END = "<|next_call|>", "<|next_end|>"
"""The marks at the end of a prompt: after a text of ours, and after the result of a call."""

# Every byte is a token, so little is shown of what no test is about.
TEMPLATE = f"""\
{{%- for message in messages %}}<|im_start|>{{{{ message.role }}}}
{{%- if message.role == "tool" %}}
<tool_response>
{{{{ message.content }}}}
</tool_response>
{{%- elif message.role == "system" %}}
{{{{ message.content[:200] }}}}
{{%- else %}}
{{{{ message.content }}}}
{{%- endif %}}
{{%- if tools and loop.first %}}
# Tools
You may call functions. Their signatures are within <tools></tools>:
<tools>
{{% for tool in tools %}}{{{{ tool.function.name }}}}
{{% endfor %}}</tools>
For each call, return a JSON object within <tool_call></tool_call>:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>
{{%- endif %}}
{{%- if message.tool_calls %}}{{% for call in message.tool_calls %}}
<tool_call>
{{"name": "{{{{ call.function.name }}}}", "arguments": {{{{ call.function.arguments | tojson }}}}}}
</tool_call>{{% endfor %}}{{% endif %}}<|im_end|>
{{% endfor %}}
{{%- if add_generation_prompt %}}<|im_start|>assistant
{{% if messages[-1].role == "tool" %}}{END}{{% else %}}{CALL}{{% endif %}}{{% endif %}}"""

_UNKNOWN, _BEGIN, _STOP, _BYTES = 0, 1, 2, 3
_KINDS = {int: (4, "<I"), float: (6, "<f"), bool: (7, "<?")}
_HEAD = 32
"""The width of the one head of attention, and of the layer after it."""


def write_model(path: Path, call: str, end: str, *, window: int) -> None:
    """Write a model that answers `call` to a text and `end` to a result.

    Where the server knows no template, the prompt ends in a line break, and `call` follows too.
    """
    control = ["<unk>", "<s>", "</s>"]
    tokens = [*control, *(f"<0x{byte:02X}>" for byte in range(256)), CALL, END, call, end]
    kinds = [2, 3, 3] + [6] * 256 + [4] * 4
    first = len(tokens) - 4
    follows = {first: first + 2, first + 1: first + 3, _BYTES + ord("\n"): first + 2}
    size, width = len(tokens), -(-len(tokens) // 32) * 32
    embeddings, output = array("f", bytes(4 * size * width)), array("f", bytes(4 * size * width))
    for token in range(size):
        embeddings[token * width + token] = 1.0
        output[_STOP * width + token] = 1.0
    for token, after in follows.items():
        output[after * width + token] = 9.0
    tensors = {
        "token_embd.weight": ((width, size), embeddings),
        "output.weight": ((width, size), output),
        **{
            name: ((width,), array("f", [1.0] * width))
            for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")
        },
        **{
            f"blk.0.{name}.weight": (shape, array("f", bytes(4 * shape[0] * shape[1])))
            for name, shape in {
                **dict.fromkeys(("attn_q", "attn_k", "attn_v"), (width, _HEAD)),
                **dict.fromkeys(("attn_output", "ffn_down"), (_HEAD, width)),
                **dict.fromkeys(("ffn_gate", "ffn_up"), (width, _HEAD)),
            }.items()
        },
    }
    values = {
        "general.architecture": "llama",
        "llama.context_length": window,
        "llama.embedding_length": width,
        "llama.block_count": 1,
        "llama.feed_forward_length": _HEAD,
        "llama.attention.head_count": 1,
        "llama.attention.key_length": _HEAD,
        "llama.attention.value_length": _HEAD,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": _HEAD,
        "llama.vocab_size": size,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * size,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.unknown_token_id": _UNKNOWN,
        "tokenizer.ggml.bos_token_id": _BEGIN,
        "tokenizer.ggml.eos_token_id": _STOP,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    path.write_bytes(_write_gguf(values, tensors))


def _write_gguf(
    values: Mapping[str, Any], tensors: Mapping[str, tuple[Sequence[int], "array[float]"]]
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(_write_text(name) + _write_value(value) for name, value in values.items())
    data = b""
    for name, (shape, numbers) in tensors.items():
        sizes = b"".join(struct.pack("<Q", each) for each in shape)
        head += _write_text(name) + struct.pack("<I", len(shape)) + sizes
        head += struct.pack("<IQ", 0, len(data))
        data += _pad(numbers.tobytes())
    return _pad(head) + data


def _write_value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _write_text(value)
    if isinstance(value, list):
        items = [_write_value(each) for each in value]
        return (
            struct.pack("<I", 9)
            + items[0][:4]
            + struct.pack("<Q", len(items))
            + b"".join(item[4:] for item in items)
        )
    number, form = _KINDS[type(value)]
    return struct.pack("<I", number) + struct.pack(form, value)


def _write_text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _pad(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % 32)
