"""Every way in which a delivery can fail, and which one an answer means.

Each function makes an exception to `raise`; what the host does with it stands in its first line.
"""

import time
import traceback
from email.utils import parsedate_to_datetime

from componentize_py_types import Err
from outhaul_http import Answer, NoAnswer
from wit_world.imports import log
from wit_world.imports import outhaul_delivery_types as types


def retry(code: str, message: str, *, after_ms: int | None = None, maybe_applied: bool = False) -> Err:
    """This event may succeed later: another attempt after a while, until its attempts are used up."""
    return Err(types.Failure_Retry(types.Info(code, message, maybe_applied, after_ms, [])))


def rate_limited(code: str, message: str, *, after_ms: int | None = None) -> Err:
    """The destination asks for fewer requests: all its events wait, and no attempt is used."""
    return Err(types.Failure_RateLimited(types.Info(code, message, False, after_ms, [])))


def unavailable(code: str, message: str, *, after_ms: int | None = None, maybe_applied: bool = False) -> Err:
    """The destination can't take anything now: all its events wait, and no attempt is used."""
    return Err(types.Failure_Unavailable(types.Info(code, message, maybe_applied, after_ms, [])))


def rejected(code: str, message: str) -> Err:
    """The destination will never take this event: a dead letter at once."""
    return Err(types.Failure_Rejected(types.Detail(code, message, False, [])))


def conflict(code: str, message: str) -> Err:
    """The destination has this ID with other content: a dead letter, for a person to look at."""
    return Err(types.Failure_Conflict(types.Detail(code, message, False, [])))


def gone(code: str, message: str) -> Err:
    """The destination is gone for good: nothing more is sent until the operator acts."""
    return Err(types.Failure_Gone(types.Detail(code, message, False, [])))


def misconfigured(code: str, message: str) -> Err:
    """The settings or credentials are wrong: nothing more is sent until the operator acts."""
    return Err(types.Failure_Misconfigured(types.Detail(code, message, False, [])))


def other(code: str, message: str, *, maybe_applied: bool = False) -> Err:
    """Anything else: as `retry`."""
    return Err(types.Failure_Other(types.Detail(code, message, maybe_applied, [])))


def of_answer(answer: Answer) -> Err | None:
    """The failure that an answer means; None for success."""
    code = f"http-{answer.status}"
    message = f"the receiver answered {answer.status}: {answer.excerpt}".rstrip(": ")
    after_ms = wish_ms(answer.headers.get("retry-after"))
    match answer.status:
        case status if 200 <= status <= 299:
            return None
        case 400 | 413 | 415 | 422:
            return rejected(code, message)
        case 401 | 403:
            # Not the event's fault: a rotated credential must not make dead letters of a backlog.
            return misconfigured(code, message)
        case 409:
            return conflict(code, message)
        case 410:
            return gone(code, message)
        case 429:
            return rate_limited(code, message, after_ms=after_ms)
        case 502 | 503 | 504 as status:
            # A gateway that got no answer can't tell whether the receiver acted.
            return unavailable(code, message, after_ms=after_ms, maybe_applied=status != 503)
        case _:
            return retry(code, message, after_ms=after_ms)


def of_exception(error: Exception) -> Err:
    """The failure that an exception means, so that none is lost: one that left `deliver` would only be
    a trap to the host, without its message."""
    if isinstance(error, Err):
        return error
    if isinstance(error, NoAnswer):
        make = {"unreachable": unavailable, "forbidden": misconfigured, "unsendable": rejected}.get(error.kind)
        return make(error.code, str(error)) if make else retry(error.code, str(error), maybe_applied=True)
    log.log(log.Level.ERROR, "".join(traceback.format_exception(error)))
    return other("exception", f"{type(error).__name__}: {error}", maybe_applied=True)


def wish_ms(retry_after: str | None) -> int | None:
    """`Retry-After` is seconds or a date. Nothing sensible is no wish; the host caps a long one."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]), 10**9) * 1000
    try:
        wait_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return int(wait_s * 1000) if wait_s > 0 else None
