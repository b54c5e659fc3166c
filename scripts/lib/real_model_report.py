"""Prints what `act` says about a real model, and fails if the wire, the tools or the prompt cache do not work.

real_model_report.py doctor FILE   the document of `act doctor --model --json`
real_model_report.py run FILE      the events of `act run --json`
"""

import json
import sys

kind, path = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    text = file.read()

if kind == "doctor" and not text:
    sys.exit("  no answer within the time limit")
if kind == "doctor":
    check = next(check for check in json.loads(text)["checks"] if check["name"] == "model_call")
    print(f"  {check['level']}: {check['message']}")
    if check["fix"]:
        print(f"  fix: {check['fix']}")
    sys.exit(check["level"] != "ok")

events = [json.loads(line) for line in text.splitlines()]
requests = [event for event in events if event["type"] == "model_request"]
for request in requests:
    usage, error = request["usage"], request.get("error")
    print(
        f"  {request['role']}: status {request.get('status')}, {usage['input']} tokens in, {usage['cached']} of them "
        f"cached, {usage['output']} out, {request['duration_ms'] / 1000:.1f} s{', ' + error if error else ''}"
    )
print(f"  {len(requests)} requests; last event: {json.dumps(events[-1]) if events else None}")
answered = [request for request in requests if not request.get("error")]
# A third attempt that fails ends the task.
broken = [request for request in requests if request.get("error") and request["attempt"] == 3]
if not answered or broken:
    sys.exit("a request was not answered in three attempts")
if len(answered) > 2 and not any(request["usage"]["cached"] for request in answered):
    sys.exit("the server's prompt cache was never used")
