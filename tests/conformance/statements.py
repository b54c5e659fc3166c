#!/usr/bin/env python3
"""Every statement that the tests signed verifies with a library of another project, and no tampered one does.

    statements.py DIRECTORY     envelopes as NAME.json with the public keys NAME.pub, written by the tests
"""

import base64
import copy
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey


def verifies(document, key):
    try:
        # The library changes the document that it reads.
        Envelope.from_dict(copy.deepcopy(document)).verify([key], 1)
    except VerificationError:
        return False
    return True


def main(directory):
    paths = sorted(Path(directory).glob("*.json"))
    faults = [] if paths else ["no statement was written"]
    for path in paths:
        document = json.loads(path.read_bytes())
        public = load_pem_public_key(path.with_suffix(".pub").read_bytes())
        key = SSlibKey.from_crypto(public, keyid=document["signatures"][0]["keyid"])
        if not verifies(document, key):
            faults.append(f"{path.name}: the signature does not verify")
        statement = json.loads(base64.b64decode(document["payload"]))
        if statement["_type"] != "https://in-toto.io/Statement/v1":
            faults.append(f"{path.name}: the payload is no statement")
        statement["predicate"]["result"] = "FAILED"
        payload = base64.b64encode(json.dumps(statement).encode()).decode()
        if verifies({**document, "payload": payload}, key):
            faults.append(f"{path.name}: a changed payload verifies")
        if verifies({**document, "payloadType": "application/json"}, key):
            faults.append(f"{path.name}: another type verifies")
    print("\n".join(faults) or f"{len(paths)} signed statements verify, and none that was changed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
