"""my-plugin: posts each event to one URL.

Outhaul calls `configure` once for each instance, and then `deliver` for one event after another. What
`deliver` returns or raises decides what becomes of the event; `failures.py` has every choice.
"""

import base64
import time

import failures
import outhaul_http
from componentize_py_types import Err, Ok
from settings import Settings, invalid, pointer
from settings_schema import SCHEMA
from wit_world import exports
from wit_world.exports.describe import Description, Need
from wit_world.imports import log, secrets
from wit_world.imports.outhaul_delivery_types import (
    ConfigureError_Unavailable,
    Disposition,
    Event,
    Receipt,
    SettingsProblem,
)

NAME, VERSION = "my-plugin", "0.1.0"

# What `configure` read. Nothing else is kept from one event to the next.
settings: Settings


class Deliver(exports.Deliver):
    def configure(self, settings_json: str) -> None:
        global settings
        try:
            settings = Settings.parse(settings_json)
            if settings.signing_secret:
                try_signing(settings.signing_secret)
            log.log(log.Level.INFO, f"posting to {settings.url}")
        except Err:
            raise
        except Exception as error:
            raise invalid(SettingsProblem("", f"{type(error).__name__}: {error}")) from None

    def deliver(self, event: Event) -> Receipt:
        try:
            return finish(begin(event, deadline(event)))
        except Exception as error:
            raise failures.of_exception(error) from None


# As many events of a batch are under way at once. Fewer than the host's connections to one destination (64 by
# default): a request that waits for a connection can't be written.
UNDER_WAY = 32


class Batch(exports.Batch):
    """Optional: several events in one call. Their requests are under way at the same time."""

    def deliver_batch(self, events: list[Event]) -> list[Ok[Receipt] | Err]:
        results, until = [], deadline(events[0])
        for first in range(0, len(events), UNDER_WAY):
            begun = [attempt(begin, event, until) for event in events[first : first + UNDER_WAY]]
            results += [one if isinstance(one, Err) else attempt(lambda: Ok(finish(one))) for one in begun]
        return results


class Describe(exports.Describe):
    """Optional: what the plugin says of itself. Called without `configure`."""

    def describe(self) -> Description:
        needs = [
            Need("http", "", [], False, "the origin of the setting url", []),
            Need("secret", "", ["hmac-sha256"], True, "the key named by the setting signing_secret", []),
        ]
        return Description(NAME, VERSION, SCHEMA, needs, [])


def deadline(event: Event) -> outhaul_http.Deadline:
    return outhaul_http.Deadline(event.budget_ms, settings.timeout_ms)


def begin(event: Event, until: outhaul_http.Deadline) -> outhaul_http.Request:
    headers = {
        "content-type": event.content_type,
        "user-agent": f"{NAME}/{VERSION}",
        # The same on every attempt: a receiver that remembers it can tell a repeated delivery.
        "webhook-id": event.dedup_id,
        "webhook-timestamp": str(int(time.time())),
    }
    if settings.signing_secret:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + event.payload
        headers["webhook-signature"] = signature(settings.signing_secret, signed)
    return outhaul_http.start(settings.url, headers, event.payload, until)


def finish(request: outhaul_http.Request) -> Receipt:
    answer = request.answer()
    failure = failures.of_answer(answer)
    if failure:
        raise failure
    return Receipt(Disposition.DELIVERED, answer.headers.get("location"), [("status", str(answer.status))])


def attempt(step, *arguments):
    """What the step returns, or the failure it ended with."""
    try:
        return step(*arguments)
    except Exception as error:
        return failures.of_exception(error)


def signature(secret: str, signed: bytes) -> str:
    """As standardwebhooks.com has it: one for each of the secret's keys, so that receivers can rotate."""
    try:
        made = secrets.sign(secret, "hmac-sha256", signed)
    except Err as error:
        raise failures.misconfigured("signing", f"signing with {secret!r}: {error.value.value}") from None
    return " ".join("v1," + base64.b64encode(one.bytes).decode() for one in made)


def try_signing(secret: str) -> None:
    """A missing grant shows when the plugin is loaded, not when the first event comes."""
    try:
        secrets.sign(secret, "hmac-sha256", b"")
    except Err as error:
        if isinstance(error.value, secrets.SecretError_Unusable):
            # A key that can't be read now may be there in a moment.
            raise Err(ConfigureError_Unavailable(error.value.value)) from None
        raise invalid(SettingsProblem(pointer("signing_secret"), error.value.value)) from None
