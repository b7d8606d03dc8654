"""Uses the client that was generated from our OpenAPI document."""

import sys

from windlass_client import AuthenticatedClient
from windlass_client.api.calls import get_call, list_calls, run_call
from windlass_client.api.tools import list_tools
from windlass_client.models import CallBody, CallerKind, CallRecord, CallResult, Problem, RecordPage

url, key = sys.argv[1:3]
client = AuthenticatedClient(base_url=url, token=key)


def call(status: int, **body):
    answer = run_call.sync_detailed(client=client, body=CallBody.from_dict(body))
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert answer.parsed is not None, answer.content
    return answer.parsed


def refused(kind: str, **body) -> CallResult:
    result = call(200, **body)
    assert isinstance(result, CallResult) and not result.is_success, result
    assert result.error_kind == kind, result
    return result


done = call(200, tool="echo", arguments={"message": "hi"})
assert isinstance(done, CallResult) and done.is_success, done

refused("invalid_arguments", tool="echo", arguments={})
refused("tool_not_found", tool="nothing_of_the_kind", arguments={})
refused("denied", tool="forbidden", arguments={"message": "hi"})
refused("credential_invalid", tool="google_search", arguments={"query": "hi"})
waiting = call(202, tool="asks_first", arguments={"message": "hi"})
assert waiting.to_dict(), waiting

# What calls: every word that the document has.
for kind in CallerKind:
    result = call(200, tool="echo", arguments={"message": kind.value}, caller_type=kind.value)
    record = get_call.sync_detailed(client=client, call_id=result.call_id).parsed
    assert isinstance(record, CallRecord), record
    assert kind.value in str(record.to_dict()), record

page = list_calls.sync(client=client)
assert isinstance(page, RecordPage), page
assert len(page.records) >= 8, page

tools = list_tools.sync(client=client)
assert tools is not None and not isinstance(tools, Problem), tools

stranger = AuthenticatedClient(base_url=url, token="nobody")
answer = list_calls.sync_detailed(client=stranger)
assert answer.status_code == 401 and isinstance(answer.parsed, Problem), answer
assert answer.parsed.code == "unauthorized", answer.parsed
print("the generated Python client: calls, refused calls, every caller type, problems")
