"""POST through `wasi:http`, bounded in time. Nothing here needs changing for an ordinary destination.

Python's own `http.client` and `requests` open sockets, which a plugin does not have; the host makes the
connection, from its pool and with its TLS. Several requests may be under way at once: `start` them all,
then ask each for its `answer`.
"""

import re
from copy import copy
from dataclasses import dataclass
from urllib.parse import urlsplit

from componentize_py_types import Err, Ok
from wit_world.imports import monotonic_clock, outgoing_handler, poll
from wit_world.imports import wasi_http_types as http

# Of an answer's body, this much is kept for the person who reads the history ...
EXCERPT_BYTES = 300
# ... and this much is read, so that the connection can be used again. A longer or slower body costs more
# than a new connection does.
DRAIN_BYTES = 256 * 1024
DRAIN_MS = 500


class NoAnswer(Exception):
    """There is no answer. `kind` says why:

    `unreachable`: the request never left; `forbidden`: the operator's config does not allow it;
    `unsendable`: no host would send such a request; `uncertain`: it left, and may have arrived.
    """

    def __init__(self, kind: str, code: str, message: str):
        super().__init__(message)
        self.kind = kind
        self.code = code


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    excerpt: str


class Deadline:
    """How long a request may take: less than the call's budget, so that there is time to report."""

    def __init__(self, budget_ms: int, timeout_ms: int | None = None):
        margin_ms = min(max(budget_ms // 20, 100), 1_000, budget_ms // 2)
        self.ms = min(budget_ms - margin_ms, timeout_ms or budget_ms)
        self.at_ns = monotonic_clock.now() + self.ms * 1_000_000

    def or_sooner(self, ms: int) -> "Deadline":
        sooner = copy(self)
        sooner.at_ns = min(self.at_ns, monotonic_clock.now() + ms * 1_000_000)
        return sooner

    def remaining_ns(self) -> int:
        return max(self.at_ns - monotonic_clock.now(), 0)

    def wait(self, *pollables: poll.Pollable) -> bool:
        """Waits until one of them is ready. False if the time is up before that."""
        with monotonic_clock.subscribe_instant(self.at_ns) as timer:
            return poll.poll([*pollables, timer]) != [len(pollables)]


class Request:
    """A request on its way."""

    def __init__(self, url: str, future: http.FutureIncomingResponse, deadline: Deadline):
        self.authority = urlsplit(url).netloc
        self.future = future
        self.deadline = deadline

    def answer(self) -> Answer:
        with self.future as future:
            with future.subscribe() as ready:
                self.deadline.wait(ready)
            match future.get():
                case Ok(Ok(response)):
                    with response:
                        return read(response, self.deadline)
                case Ok(Err(error)):
                    raise explain(error, self.authority)
                case _:
                    message = f"no answer within {self.deadline.ms} ms"
                    raise NoAnswer("uncertain", "timeout", message)


def start(url: str, headers: dict[str, str], body: bytes, deadline: Deadline) -> Request:
    """Sends the request's head and body, and does not wait for the answer."""
    target = urlsplit(url)
    fields = [(name, value.encode()) for name, value in headers.items()]
    fields.append(("content-length", str(len(body)).encode()))
    try:
        request = http.OutgoingRequest(http.Fields.from_list(fields))
    except Err as error:
        message = f"the host refuses a header: {type(error.value).__name__}"
        raise NoAnswer("unsendable", "invalid-header", message) from None
    request.set_method(http.Method_Post())
    request.set_scheme(http.Scheme_Https() if target.scheme == "https" else http.Scheme_Http())
    request.set_authority(target.netloc)
    request.set_path_with_query((target.path or "/") + (f"?{target.query}" if target.query else ""))
    outgoing = request.body()
    options = http.RequestOptions()
    # Shorter than our own timer, so that the host can say that the request never left.
    options.set_connect_timeout(deadline.remaining_ns() // 2)
    options.set_first_byte_timeout(deadline.remaining_ns())
    try:
        future = outgoing_handler.handle(request, options)
    except Err as error:
        raise explain(error.value, target.netloc) from None
    write(outgoing, body, future, deadline)
    return Request(url, future, deadline)


def write(
    outgoing: http.OutgoingBody, body: bytes, future: http.FutureIncomingResponse, deadline: Deadline
) -> None:
    """Writes until the body is out, or until an answer comes first; the answer then says why."""
    rest = memoryview(body)
    with outgoing.write() as stream, stream.subscribe() as writable, future.subscribe() as answered:
        try:
            while rest:
                room = stream.check_write()
                if room:
                    stream.write(bytes(rest[:room]))
                    rest = rest[room:]
                elif not deadline.wait(writable, answered) or answered.ready():
                    break
        except Err:
            pass  # The connection is gone, and the future knows why.
    if rest:
        outgoing.__exit__(None, None, None)
    else:
        try:
            http.OutgoingBody.finish(outgoing, None)
        except Err:
            pass  # The future has this error too.


def read(response: http.IncomingResponse, deadline: Deadline) -> Answer:
    with response.headers() as fields:
        headers = {name.lower(): value.decode("latin-1") for name, value in fields.entries()}
    return Answer(response.status(), headers, read_excerpt(response, deadline))


def read_excerpt(response: http.IncomingResponse, deadline: Deadline) -> str:
    """The status is known already, so nothing that goes wrong here changes what the answer means."""
    beginning, total, deadline = b"", 0, deadline.or_sooner(DRAIN_MS)
    with response.consume() as body, body.stream() as stream, stream.subscribe() as readable:
        try:
            while total < DRAIN_BYTES and deadline.wait(readable):
                chunk = stream.read(16 * 1024)
                total += len(chunk)
                beginning += chunk[: EXCERPT_BYTES - len(beginning)]
        except Err:
            pass  # The end of the body, most often.
    return beginning.decode("utf-8", "replace").strip()


KINDS = {
    "unreachable": (
        http.ErrorCode_DnsTimeout,
        http.ErrorCode_DnsError,
        http.ErrorCode_DestinationNotFound,
        http.ErrorCode_DestinationUnavailable,
        http.ErrorCode_DestinationIpUnroutable,
        http.ErrorCode_ConnectionRefused,
        http.ErrorCode_ConnectionTimeout,
        http.ErrorCode_ConnectionLimitReached,
        http.ErrorCode_TlsProtocolError,
        http.ErrorCode_TlsCertificateError,
        http.ErrorCode_TlsAlertReceived,
    ),
    "forbidden": (
        http.ErrorCode_HttpRequestDenied,
        http.ErrorCode_DestinationIpProhibited,
        http.ErrorCode_ConfigurationError,
    ),
    "unsendable": (
        http.ErrorCode_HttpRequestBodySize,
        http.ErrorCode_HttpRequestHeaderSectionSize,
        http.ErrorCode_HttpRequestHeaderSize,
        http.ErrorCode_HttpRequestUriInvalid,
        http.ErrorCode_HttpRequestUriTooLong,
    ),
}


def explain(error: http.ErrorCode, authority: str) -> NoAnswer:
    # The host's timer runs as long as ours, and may be the first.
    if isinstance(error, http.ErrorCode_HttpResponseTimeout):
        return NoAnswer("uncertain", "timeout", f"{authority} did not answer in time")
    kind = next((kind for kind, errors in KINDS.items() if isinstance(error, errors)), "uncertain")
    # ErrorCode_ConnectionRefused is connection-refused.
    words = re.findall(r"[A-Z][a-z]*", type(error).__name__.removeprefix("ErrorCode_"))
    code = "-".join(words).lower()
    detail = f"{code} {getattr(error, 'value', None) or ''}".strip()
    message = {
        "unreachable": f"{authority} can't be reached: {detail}",
        "forbidden": f"the host does not let this destination reach {authority} ({detail}); add its origin in a "
        "[[destination.NAME.http]] section, with  private = true  if its address is a private one",
        "unsendable": f"the request can't be sent: {detail}",
        "uncertain": f"{authority} was sent the request, and no whole answer came: {detail}",
    }
    return NoAnswer(kind, code, message[kind])
