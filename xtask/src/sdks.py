# Reads messages, a JSON line each, and holds them against the types of the
# official SDKs of the APIs that they are for. Says how many were right.
import json
import sys

from anthropic.types import MessageParam
from openai.types import chat, responses
from openai.types.responses import response_input_item_param as items
from pydantic import TypeAdapter

# Where a type is one of many, the kind of the message says which: a union takes
# what fits any of them.
TYPES = {
    ("anthropic", "user"): MessageParam,
    ("anthropic", "assistant"): MessageParam,
    ("openai", "user"): chat.ChatCompletionUserMessageParam,
    ("openai", "assistant"): chat.ChatCompletionAssistantMessageParam,
    ("openai", "tool"): chat.ChatCompletionToolMessageParam,
    ("responses", "function_call"): responses.ResponseFunctionToolCallParam,
    ("responses", "function_call_output"): items.FunctionCallOutput,
    ("responses", "custom_tool_call_output"): responses.ResponseCustomToolCallOutputParam,
}
TYPES = {kind: TypeAdapter(type) for kind, type in TYPES.items()}
# Items of the API's own, which are passed on as they came.
FOREIGN = TypeAdapter(responses.ResponseInputItemParam)


def exhaust(value):
    """What the types call iterable is only looked at when it is read."""
    if isinstance(value, dict):
        for inner in value.values():
            exhaust(inner)
    elif not isinstance(value, (str, bytes, int, float, bool, type(None))):
        for inner in value:
            exhaust(inner)


def check(kind, message):
    of = message.get("type") if kind == "responses" else message["role"]
    adapter = TYPES.get((kind, of), FOREIGN if kind == "responses" else None)
    if adapter is None:
        raise ValueError(f"{kind} has no {of}")
    exhaust(adapter.validate_python(message))


def must_refuse():
    """A check that takes everything checks nothing."""
    wrong = [
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        ("openai", {"role": "tool", "content": "x"}),
        ("responses", {"type": "function_call_output", "call_id": "c"}),
    ]
    for kind, message in wrong:
        try:
            check(kind, message)
        except ValueError:
            continue
        sys.exit(f"the types of {kind} take {message}")


must_refuse()
counts = {}
for line in sys.stdin:
    told = json.loads(line)
    try:
        check(told["format"], told["message"])
    except ValueError as error:
        sys.exit(f"{told['format']} does not take {json.dumps(told['message'])[:2000]}: {error}")
    counts[told["format"]] = counts.get(told["format"], 0) + 1
if len(counts) != 3:
    sys.exit(f"not all APIs were asked: {counts}")
print(", ".join(f"{count} of {kind}" for kind, count in sorted(counts.items())))
