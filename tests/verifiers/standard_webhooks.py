"""Verifies received webhooks with libraries that know nothing of Outhaul.

Reads requests from standard input, one JSON object a line: {"headers": {name: value}, "body": base64}.
Every request must verify under every key given, so that both sides of a rotation are shown:

    --hmac whsec_…     v1, by the PyPI package standardwebhooks
    --ed25519 BASE64   v1a, by PyNaCl; the receiver's 32-byte public key

Ends with 1 and a line per failure if one does not, or if there was nothing to verify.
"""

import argparse
import base64
import json
import sys

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from standardwebhooks import Webhook, WebhookVerificationError


def verify_ed25519(key, headers, body):
    """The receiver's side of v1a, as the specification describes it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for versioned in headers["webhook-signature"].split(" "):
        version, _, signature = versioned.partition(",")
        if version != "v1a":
            continue
        try:
            key.verify(signed, base64.b64decode(signature))
            return
        except BadSignatureError:
            continue
    raise BadSignatureError("no v1a signature matches")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--hmac", action="append", default=[])
    arguments.add_argument("--ed25519", action="append", default=[])
    arguments = arguments.parse_args()
    webhooks = [Webhook(secret) for secret in arguments.hmac]
    keys = [VerifyKey(base64.b64decode(key)) for key in arguments.ed25519]
    if not webhooks and not keys:
        sys.exit("give at least one --hmac or --ed25519")

    requests = [json.loads(line) for line in sys.stdin if line.strip()]
    failures = 0
    for number, request in enumerate(requests, 1):
        headers, body = request["headers"], base64.b64decode(request["body"])
        try:
            for webhook in webhooks:
                webhook.verify(body, headers, json_parse=False)
            for key in keys:
                verify_ed25519(key, headers, body)
        except (WebhookVerificationError, BadSignatureError, KeyError) as problem:
            print(f"request {number}: {type(problem).__name__}: {problem}", file=sys.stderr)
            failures += 1
    if failures or not requests:
        sys.exit(f"{failures} of {len(requests)} requests do not verify")
    print(f"verified {len(requests)} requests")


if __name__ == "__main__":
    main()
