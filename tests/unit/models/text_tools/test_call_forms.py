"""Calls in the forms that models were trained to write: one table."""

import json

import pytest

from tests.linear import takes_linear_time
from worker.conversation.answer_text import has_written_call, read_blocks
from worker.conversation.messages import ToolSpec
from worker.models.written_forms import read_written_calls

TEXT = {"type": "string"}
TOOLS = (
    ToolSpec("look", "Look.", {"properties": {"at": {"type": "integer"}, "why": TEXT}}),
    ToolSpec("look_again", "Look.", {"properties": {"at": {"type": "integer"}}}),
    ToolSpec("run", "Run.", {"properties": {"command": TEXT, "files": {"type": "array"}}}),
)
LOOK = ("look", {"at": 1})
RUN = ("run", {"command": "grep -n 'a > b' x |\n  head"})
COMMAND = json.dumps(RUN[1])
DEEP = "｜"

FORMS = {
    "hermes": '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>',
    "hermes without an end": '<tool_call>\n{"name": "look", "arguments": {"at": 1}}',
    "bare": '{"name": "look", "arguments": {"at": 1}}',
    "bare, spread": '{\n  "name": "look",\n  "arguments": {\n    "at": 1\n  }\n}',
    "in a fence": '```json\n{"name": "look", "arguments": {"at": 1}}\n```',
    "arguments as text": '{"name": "look", "arguments": "{\\"at\\": 1}"}',
    "openai": '{"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": {"at": 1}}}]}',
    "llama": '<|python_tag|>{"name": "look", "parameters": {"at": 1}}',
    "pythonic": "[look(at=1)]",
    "pythonic in marks": "<|python_start|>[look(at=1)]<|python_end|>",
    "gemini": "```tool_code\nprint(default_api.look(at=1))\n```",
    "mistral": '[TOOL_CALLS][{"name": "look", "arguments": {"at": 1}}]',
    "mistral 11": '[TOOL_CALLS]look{"at": 1}',
    "mistral 13": '[TOOL_CALLS]look[ARGS]{"at": 1}',
    "qwen": "<tool_call>\n<function=look>\n<parameter=at>\n1\n</parameter>\n</function>\n"
    "</tool_call>",
    "qwen alone": "<function=look>\n<parameter=at>\n1\n</function>",
    "glm": "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "minimax": '<minimax:tool_call><invoke name="look"><parameter name="at">1</parameter></invoke>'
    "</minimax:tool_call>",
    "deepseek": f"<{DEEP}tool▁calls▁begin{DEEP}><{DEEP}tool▁call▁begin{DEEP}>function"
    f'<{DEEP}tool▁sep{DEEP}>look\n```json\n{{"at": 1}}\n```<{DEEP}tool▁call▁end{DEEP}>'
    f"<{DEEP}tool▁calls▁end{DEEP}>",
    "deepseek 3.1": f"<{DEEP}tool▁calls▁begin{DEEP}><{DEEP}tool▁call▁begin{DEEP}>look"
    f'<{DEEP}tool▁sep{DEEP}>{{"at": 1}}<{DEEP}tool▁call▁end{DEEP}><{DEEP}tool▁calls▁end{DEEP}>',
    "deepseek 3.2": f'<{DEEP}DSML{DEEP}function_calls><{DEEP}DSML{DEEP}invoke name="look">'
    f'<{DEEP}DSML{DEEP}parameter name="at" string="false">1</{DEEP}DSML{DEEP}parameter>'
    f"</{DEEP}DSML{DEEP}invoke></{DEEP}DSML{DEEP}function_calls>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0"
    '<|tool_call_argument_begin|>{"at": 1}<|tool_call_end|><|tool_calls_section_end|>',
    "kimi without marks": 'functions.look:0{"at": 1}',
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json"
    '<|message|>{"at": 1}<|call|>',
    "harmony without marks": 'assistantcommentary to=functions.look json{"at": 1}',
    "gemma 4": "<|tool_call>call:look{at:1}<tool_call|>",
    "functiongemma": "<start_function_call>call:look{at:1}<end_function_call>",
    "lfm2": "<|tool_call_start|>[look(at=1)]<|tool_call_end|>",
    "deepseek 4": f'<{DEEP}DSML{DEEP}tool_calls><{DEEP}DSML{DEEP}invoke name="look">'
    f'<{DEEP}DSML{DEEP}parameter name="at" string="false">1</{DEEP}DSML{DEEP}parameter>'
    f"</{DEEP}DSML{DEEP}invoke></{DEEP}DSML{DEEP}tool_calls>",
    "a tag around JSON": '<function=look>{"at": 1}</function>',
    "a call of JSON": 'functions.look({"at": 1})',
    "react": 'Action: look\nAction Input: {"at": 1}\nObservation:',
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "look", "parameters": '
    '{"at": 1}}]<|END_ACTION|>',
    "internlm": '<|action_start|><|plugin|>{"name": "look", "parameters": {"at": 1}}<|action_end|>',
}


def read(text: str) -> tuple[str, list[tuple[str, object]]]:
    said, calls = read_written_calls(text, TOOLS)
    return said, [(call.name, json.loads(call.arguments)) for call in calls]


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_call_is_read_in_the_form_of_its_model(text: str) -> None:
    assert read(text) == ("", [LOOK])
    assert read(f"I look at it.\n\n{text}\n") == ("I look at it.", [LOOK])
    assert has_written_call(read_blocks(text), [tool.name for tool in TOOLS])


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (FORMS["hermes"] + "\n" + FORMS["hermes"].replace("1", "2"), [LOOK, ("look", {"at": 2})]),
        (FORMS["mistral 13"] * 2, [LOOK, LOOK]),
        ("[look(at=1), look_again(at=2)]", [LOOK, ("look_again", {"at": 2})]),
        (f'<tool_call>{{"name": "run", "arguments": {COMMAND}}}</tool_call>', [RUN]),
        (
            f"<function=run>\n<parameter=command>\n{RUN[1]['command']}\n</parameter>\n"
            '<parameter=files>\n["a", "b"]\n</parameter>\n</function>',
            [("run", {**RUN[1], "files": ["a", "b"]})],
        ),
        (
            '<invoke name="look"><parameter name="why">17</parameter></invoke>',
            [("look", {"why": "17"})],
        ),
        (f"Let me check.{FORMS['mistral 11']}", [LOOK]),
        (
            f"<start_function_call>call:run{{command:<escape>{RUN[1]['command']}<escape>}}"
            "<end_function_call>",
            [RUN],
        ),
        (
            '<|tool_call>call:look{at:1,why:<|"|>a, {b}<|"|>}<tool_call|>',
            [("look", {"at": 1, "why": "a, {b}"})],
        ),
    ],
)
def test_calls_keep_their_order_and_their_values(text: str, calls: list[object]) -> None:
    assert read(text)[1] == calls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It fails in look.",
        'The log has\n{"name": "look", "arguments": {"at": 1}}\nin line 3.',
        f"{FORMS['hermes']}\n\nSo it failed.",
        f"> {FORMS['bare']}",
        f"- job 4 line 3: {FORMS['bare']}",
        f"`{FORMS['bare']}`",
        '{"name": "delete", "arguments": {}}',
        '{"name": "look", "argu',
        "<function=look>\n<parameter=at>\n1",
        "look(1)",
        "call:look{at:1",
        "call:look{at:<escape>1}",
        "[look(at=open('x'))]",
        '[{"name": "look"}, 7]',
        "[" * 9999,
    ],
)
def test_everything_else_is_text(text: str) -> None:
    said, calls = read(text)
    assert (said, calls) == (text, [])


@pytest.mark.parametrize(
    "part",
    [
        *(
            "call:look{at:1,",
            "call:look{at:<escape>",
            "<tool_call>",
            "<function=look>",
            "{\n",
            "[",
            "look{",
            ",",
            "<|a|>",
            "<arg_key>",
            "[\n",
        ),
        *(FORMS["mistral 11"], FORMS["hermes"] + "\n", FORMS["qwen"] + "\n", "look(at=1)\n"),
    ],
)
def test_a_long_text_is_read_in_linear_time(part: str) -> None:
    assert takes_linear_time(lambda text: read_written_calls(text, TOOLS), part, 2_000)
