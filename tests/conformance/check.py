#!/usr/bin/env python3
"""Every request body that the tests sent fits the type definitions of the official SDKs.

    check.py DIRECTORY     bodies as WIRE-DIGEST.json, written by the tests
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

WIRES = {
    "chat_completions": CompletionCreateParamsStreaming,
    "messages": MessageCreateParamsStreaming,
    "responses": ResponseCreateParamsStreaming,
}


def whole(value):
    """Lists that the SDKs declare as iterables are only judged while they are walked."""
    if isinstance(value, dict):
        return {name: whole(field) for name, field in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [whole(item) for item in value]
    return value


def difference(sent, known, place="body"):
    """The first place where the SDK's types know less than what was sent."""
    if isinstance(sent, dict) and isinstance(known, dict):
        for name in sent:
            if name not in known:
                return f"{place}.{name} is unknown to the SDK"
            if found := difference(sent[name], known[name], f"{place}.{name}"):
                return found
    elif isinstance(sent, list) and isinstance(known, list) and len(sent) == len(known):
        for at, (one, other) in enumerate(zip(sent, known)):
            if found := difference(one, other, f"{place}[{at}]"):
                return found
    elif sent != known:
        return f"{place}: {sent!r} is read as {known!r}"
    return None


def main(directory):
    counts, faults = Counter(), []
    adapters = {wire: TypeAdapter(params) for wire, params in WIRES.items()}
    for path in sorted(Path(directory).glob("*.json")):
        wire = path.name.rsplit("-", 1)[0]
        body = json.loads(path.read_bytes())
        counts[wire] += 1
        try:
            known = whole(adapters[wire].validate_python(body, strict=True))
        except Exception as error:  # every kind of refusal is a finding
            # One line for each type of a union; the first ones tell where.
            faults.append(f"{path.name}: {str(error)[:400]} …")
            continue
        if found := difference(body, known):
            faults.append(f"{path.name}: {found}")
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    silent = [wire for wire in WIRES if not counts[wire]]
    for wire in silent:
        print(f"no request of {wire} was recorded", file=sys.stderr)
    total = sum(counts.values())
    each = ", ".join(f"{wire} {counts[wire]}" for wire in WIRES)
    print(f"conformance: {total - len(faults)} of {total} requests fit the SDKs ({each})")
    return 1 if faults or silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
