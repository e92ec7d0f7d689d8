// Every way in which a delivery can fail, and which one an answer means. Throw what these make.

import { log } from "outhaul:log/log@1.0.0";
import { NoAnswer } from "./http.js";

/** @import { Failure } from "outhaul:delivery/types@1.0.0" */
/** @import { Answer } from "./http.js" */
/** @typedef {{ afterMs?: bigint, maybeApplied?: boolean }} More */

/** A delivery that failed. `payload` is what the host gets. */
export class Failed extends Error {
  /** @param {Failure} payload */
  constructor(payload) {
    super(`${payload.tag}: ${payload.val.message}`);
    this.name = "Failed";
    this.payload = payload;
  }
}

/**
 * @param {Failure["tag"]} tag one of
 *
 * - `retry`: this event may succeed later: another attempt after a while, until its attempts are used up
 * - `rate-limited`: the destination asks for fewer requests: all its events wait, and no attempt is used
 * - `unavailable`: the destination can't take anything now: all its events wait, and no attempt is used
 * - `rejected`: the destination will never take this event: a dead letter at once
 * - `conflict`: the destination has this ID with other content: a dead letter, for a person to look at
 * - `gone`: the destination is gone for good: nothing more is sent until the operator acts
 * - `misconfigured`: the settings or credentials are wrong: nothing more is sent until the operator acts
 * - `other`: as `retry`
 * @param {string} code a short word for machines
 * @param {string} message a sentence for people
 * @param {More} [more] when to try again (the first three only); whether it may have happened all the same
 */
export function failed(tag, code, message, { afterMs, maybeApplied = false } = {}) {
  const val = { code, message, maybeApplied, afterMs, attributes: [] };
  return new Failed(/** @type {Failure} */ ({ tag, val }));
}

/**
 * The failure that an answer means; undefined for success.
 * @param {Answer} answer
 */
export function ofAnswer({ status, headers, excerpt }) {
  if (status >= 200 && status <= 299) {
    return undefined;
  }
  const afterMs = wishMs(headers.get("retry-after"));
  // A gateway that got no answer can't tell whether the receiver acted.
  const maybeApplied = status === 502 || status === 504;
  const message = `the receiver answered ${status}${excerpt && `: ${excerpt}`}`;
  return failed(kindOf(status), `http-${status}`, message, { afterMs, maybeApplied });
}

/**
 * @param {number} status
 * @returns {Failure["tag"]}
 */
function kindOf(status) {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return "rejected";
    case 401:
    case 403:
      // Not the event's fault: a rotated credential must not make dead letters of a backlog.
      return "misconfigured";
    case 409:
      return "conflict";
    case 410:
      return "gone";
    case 429:
      return "rate-limited";
    case 502:
    case 503:
    case 504:
      return "unavailable";
    default:
      return "retry";
  }
}

/**
 * The failure that anything thrown means, so that none is lost: to the host, an error that left `deliver`
 * would only be a trap, without its message.
 * @param {unknown} thrown
 */
export function ofThrown(thrown) {
  if (thrown instanceof Failed) {
    return thrown;
  }
  if (thrown instanceof NoAnswer) {
    /** @type {Record<NoAnswer["kind"], Failure["tag"]>} */
    const tags = { unreachable: "unavailable", forbidden: "misconfigured", unsendable: "rejected", uncertain: "retry" };
    return failed(tags[thrown.kind], thrown.code, thrown.message, { maybeApplied: thrown.kind === "uncertain" });
  }
  log("error", thrown instanceof Error ? `${thrown}\n${thrown.stack}` : String(thrown));
  return failed("other", "exception", String(thrown), { maybeApplied: true });
}

/**
 * `Retry-After` is seconds or a date. Nothing sensible is no wish; the host caps a long one.
 * @param {string} [retryAfter]
 */
function wishMs(retryAfter) {
  const text = (retryAfter ?? "").trim();
  if (/^[0-9]+$/.test(text)) {
    return BigInt(text.slice(0, 12)) * 1000n;
  }
  // `Date.parse` takes much for a date, such as "-1"; HTTP's have a colon.
  const waitMs = text.includes(":") ? Date.parse(text) - Date.now() : NaN;
  return waitMs > 0 ? BigInt(Math.round(waitMs)) : undefined;
}
