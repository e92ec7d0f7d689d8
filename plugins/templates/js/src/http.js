// POST through `wasi:http`, bounded in time. Nothing here needs changing for an ordinary destination.
//
// Why not `fetch`? Where nothing listens, the engine's own `fetch` ends the whole instance instead of
// throwing; this tells a refused connection from a lost answer. Several requests may be under way at once:
// `start` them all, then ask each for its `answer`.
//
// What the host lends (`using`) is given back at the end of its block; an instance may hold only so much.

import { now, subscribeInstant } from "wasi:clocks/monotonic-clock@0.2.12";
import { handle } from "wasi:http/outgoing-handler@0.2.12";
import { Fields, OutgoingBody, OutgoingRequest, RequestOptions } from "wasi:http/types@0.2.12";
import { poll } from "wasi:io/poll@0.2.12";

/** @import { ErrorCode, FutureIncomingResponse, IncomingResponse } from "wasi:http/types@0.2.12" */
/** @import { Pollable } from "wasi:io/poll@0.2.12" */
/** @typedef {{ status: number, headers: Map<string, string>, excerpt: string }} Answer */

// Of an answer's body, this much is kept for the person who reads the history ...
const EXCERPT_BYTES = 300;
// ... and this much is read, so that the connection can be used again. A longer or slower body costs more
// than a new connection does.
const DRAIN_BYTES = 256 * 1024;
const DRAIN_MS = 500n;

const MS = 1_000_000n; // in nanoseconds

/** There is no answer. */
export class NoAnswer extends Error {
  /**
   * @param {"unreachable" | "forbidden" | "unsendable" | "uncertain"} kind the request never left; the
   *   operator's config does not allow it; no host would send it; it left, and may have arrived
   * @param {string} code
   * @param {string} message
   */
  constructor(kind, code, message) {
    super(message);
    this.name = "NoAnswer";
    this.kind = kind;
    this.code = code;
  }
}

/** How long a request may take: less than the call's budget, so that there is time to report. */
export class Deadline {
  /** @param {bigint} atNs a moment of the monotonic clock */
  constructor(atNs) {
    this.atNs = atNs;
  }

  /** @param {bigint} budgetMs @param {number} [timeoutMs] */
  static within(budgetMs, timeoutMs) {
    const margin = least(most(budgetMs / 20n, 100n), 1000n, budgetMs / 2n);
    const time = least(budgetMs - margin, timeoutMs === undefined ? budgetMs : BigInt(timeoutMs));
    return new Deadline(now() + time * MS);
  }

  /** @param {bigint} ms */
  orSooner(ms) {
    return new Deadline(least(this.atNs, now() + ms * MS));
  }

  remainingNs() {
    return most(this.atNs - now(), 0n);
  }

  /**
   * Waits until one of them is ready. False if the time is up before that.
   * @param {...Pollable} pollables
   */
  wait(...pollables) {
    using timer = subscribeInstant(this.atNs);
    return poll([...pollables, timer]).some((ready) => ready < pollables.length);
  }
}

/** A request on its way. */
class Request {
  /** @param {string} authority @param {FutureIncomingResponse} future @param {Deadline} deadline */
  constructor(authority, future, deadline) {
    this.authority = authority;
    this.future = future;
    this.deadline = deadline;
  }

  /** @returns {Answer} */
  answer() {
    using future = this.future;
    waitFor(future, this.deadline);
    const got = future.get();
    if (got?.tag !== "ok") {
      throw new NoAnswer("uncertain", "timeout", `${this.authority} did not answer in time`);
    }
    if (got.val.tag === "err") {
      throw explain(got.val.val, this.authority);
    }
    using response = got.val.val;
    return { status: response.status(), headers: headersOf(response), excerpt: excerptOf(response, this.deadline) };
  }
}

/** @param {FutureIncomingResponse} future @param {Deadline} deadline */
function waitFor(future, deadline) {
  using ready = future.subscribe();
  deadline.wait(ready);
}

/**
 * Sends the request's head and body, and does not wait for the answer.
 * @param {string} url
 * @param {Record<string, string>} headers
 * @param {Uint8Array} body
 * @param {Deadline} deadline
 */
export function start(url, headers, body, deadline) {
  const target = new URL(url);
  const request = new OutgoingRequest(fieldsOf({ ...headers, "content-length": `${body.length}` }));
  request.setMethod({ tag: "post" });
  request.setScheme({ tag: target.protocol === "https:" ? "HTTPS" : "HTTP" });
  request.setAuthority(target.host);
  request.setPathWithQuery(target.pathname + target.search);
  const outgoing = request.body();
  const options = new RequestOptions();
  // Shorter than our own timer, so that the host can say that the request never left.
  options.setConnectTimeout(deadline.remainingNs() / 2n);
  options.setFirstByteTimeout(deadline.remainingNs());
  let future;
  try {
    future = handle(request, options);
  } catch (error) {
    throw explain(payloadOf(error), target.host);
  }
  if (write(outgoing, body, future, deadline)) {
    attempt(() => OutgoingBody.finish(outgoing, undefined));
  } else {
    outgoing[Symbol.dispose]();
  }
  return new Request(target.host, future, deadline);
}

/**
 * Writes until the body is out, or until an answer comes first; the answer then says why.
 * @param {OutgoingBody} outgoing
 * @param {Uint8Array} body
 * @param {FutureIncomingResponse} future
 * @param {Deadline} deadline
 * @returns whether all of it is out
 */
function write(outgoing, body, future, deadline) {
  using stream = outgoing.write();
  using writable = stream.subscribe();
  using answered = future.subscribe();
  let written = 0;
  // An error says that the connection is gone; the future knows why.
  attempt(() => {
    while (written < body.length) {
      const room = Number(least(stream.checkWrite(), BigInt(body.length - written)));
      if (room > 0) {
        stream.write(body.subarray(written, written + room));
        written += room;
      } else if (!deadline.wait(writable, answered) || answered.ready()) {
        return;
      }
    }
  });
  return written === body.length;
}

/** @param {Record<string, string>} headers */
function fieldsOf(headers) {
  const encoder = new TextEncoder();
  try {
    return Fields.fromList(Object.entries(headers).map(([name, value]) => [name, encoder.encode(value)]));
  } catch (error) {
    throw new NoAnswer("unsendable", "invalid-header", `the host refuses a header: ${payloadOf(error).tag}`);
  }
}

/** @param {IncomingResponse} response */
function headersOf(response) {
  using fields = response.headers();
  const decoder = new TextDecoder();
  return new Map(fields.entries().map(([name, value]) => [name.toLowerCase(), decoder.decode(value)]));
}

/**
 * The status is known already, so nothing that goes wrong here changes what the answer means.
 * @param {IncomingResponse} response
 * @param {Deadline} deadline
 */
function excerptOf(response, deadline) {
  const soon = deadline.orSooner(DRAIN_MS);
  const decoder = new TextDecoder();
  let [excerpt, total] = ["", 0];
  using body = response.consume();
  using stream = body.stream();
  using readable = stream.subscribe();
  // An error is the end of the body, most often.
  attempt(() => {
    while (total < DRAIN_BYTES && soon.wait(readable)) {
      const chunk = stream.read(16n * 1024n);
      const room = Math.max(EXCERPT_BYTES - total, 0);
      excerpt += decoder.decode(chunk.subarray(0, room), { stream: true });
      total += chunk.length;
    }
  });
  return excerpt.trim();
}

/** @type {Record<"unreachable" | "forbidden" | "unsendable", ErrorCode["tag"][]>} */
const KINDS = {
  unreachable: [
    "DNS-timeout",
    "DNS-error",
    "destination-not-found",
    "destination-unavailable",
    "destination-IP-unroutable",
    "connection-refused",
    "connection-timeout",
    "connection-limit-reached",
    "TLS-protocol-error",
    "TLS-certificate-error",
    "TLS-alert-received",
  ],
  forbidden: ["HTTP-request-denied", "destination-IP-prohibited", "configuration-error"],
  unsendable: [
    "HTTP-request-body-size",
    "HTTP-request-header-section-size",
    "HTTP-request-header-size",
    "HTTP-request-URI-invalid",
    "HTTP-request-URI-too-long",
  ],
};

/** @param {ErrorCode} error @param {string} authority */
function explain(error, authority) {
  const code = error.tag.toLowerCase();
  const detail = "val" in error && error.val !== undefined ? `${code} ${printed(error.val)}` : code;
  if (KINDS.unreachable.includes(error.tag)) {
    return new NoAnswer("unreachable", code, `${authority} can't be reached: ${detail}`);
  }
  if (KINDS.forbidden.includes(error.tag)) {
    const hint = "add its origin in a [[destination.NAME.http]] section, with  private = true  if its address is private";
    return new NoAnswer("forbidden", code, `the host does not let this destination reach ${authority} (${detail}); ${hint}`);
  }
  if (KINDS.unsendable.includes(error.tag)) {
    return new NoAnswer("unsendable", code, `the request can't be sent: ${detail}`);
  }
  // The host's timer runs as long as ours, and may be the first.
  if (error.tag === "HTTP-response-timeout") {
    return new NoAnswer("uncertain", "timeout", `${authority} did not answer in time`);
  }
  return new NoAnswer("uncertain", code, `${authority} was sent the request, and no whole answer came: ${detail}`);
}

/** @param {unknown} value */
function printed(value) {
  return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? Number(part) : part));
}

/** An imported function's error, which it throws wrapped. @param {unknown} error */
export function payloadOf(error) {
  if (error !== null && typeof error === "object" && "payload" in error) {
    return /** @type {any} */ (error.payload);
  }
  throw error;
}

/**
 * Runs the step; an error that an imported function returns ends it, and any other goes on.
 * @param {() => void} step
 */
function attempt(step) {
  try {
    step();
  } catch (error) {
    payloadOf(error);
  }
}

/** @param {...bigint} values */
function least(...values) {
  return values.reduce((one, other) => (other < one ? other : one));
}

/** @param {...bigint} values */
function most(...values) {
  return values.reduce((one, other) => (other > one ? other : one));
}
