// my-plugin: posts each event to one URL.
//
// Outhaul calls `configure` once for each instance, and then `deliver` for one event after another. What
// `deliver` returns or throws decides what becomes of the event; `failures.js` has every choice.

import { log } from "outhaul:log/log@1.0.0";
import { sign } from "outhaul:secrets/secrets@1.0.0";
import schema from "../settings.schema.json";
import { Failed, failed, ofAnswer, ofThrown } from "./failures.js";
import { Deadline, payloadOf, start } from "./http.js";
import { Refused, parse, pointer, wrong } from "./settings.js";

/** @import { Description, Need } from "outhaul:delivery/describe@1.0.0" */
/** @import { Event, Failure, Receipt } from "outhaul:delivery/types@1.0.0" */
/** @typedef {ReturnType<typeof start>} Request */
/** @typedef {{ tag: "ok", val: Receipt } | { tag: "err", val: Failure }} Result */

const NAME = "my-plugin";
const VERSION = "0.1.0";

/** What `configure` read. Nothing else is kept from one event to the next. @type {import("./settings.js").Settings} */
let settings;

export const deliver = {
  /** @param {string} settingsJson */
  configure(settingsJson) {
    try {
      settings = parse(settingsJson);
      if (settings.signingSecret) {
        trySigning(settings.signingSecret);
      }
      log("info", `posting to ${settings.url}`);
    } catch (error) {
      throw error instanceof Refused ? error : wrong({ pointer: "", message: String(error) });
    }
  },

  /**
   * @param {Event} event
   * @returns {Receipt}
   */
  deliver(event) {
    try {
      return finish(begin(event, deadlineOf(event)));
    } catch (error) {
      throw ofThrown(error);
    }
  },
};

/**
 * As many events of a batch are under way at once. Fewer than the host's connections to one destination (64 by
 * default): a request that waits for a connection can't be written.
 */
const UNDER_WAY = 32;

/** Optional: several events in one call. Their requests are under way at the same time. */
export const batch = {
  /** @param {Event[]} events */
  deliverBatch(events) {
    /** @type {Result[]} */
    const results = [];
    const deadline = deadlineOf(events[0]);
    for (let first = 0; first < events.length; first += UNDER_WAY) {
      const some = events.slice(first, first + UNDER_WAY);
      const begun = some.map((event) => attempt(() => begin(event, deadline)));
      for (const one of begun) {
        const done = one instanceof Failed ? one : attempt(() => finish(one));
        results.push(done instanceof Failed ? { tag: "err", val: done.payload } : { tag: "ok", val: done });
      }
    }
    return results;
  },
};

/**
 * @param {string} capability
 * @param {string} purpose
 * @returns {Need}
 */
const need = (capability, purpose) => ({ capability, name: "", uses: [], optional: false, purpose, attributes: [] });

/** Optional: what the plugin says of itself. Called without `configure`. */
export const describe = {
  /** @returns {Description} */
  describe() {
    const needs = [
      need("http", "the origin of the setting url"),
      {
        ...need("secret", "the key named by the setting signing_secret"),
        uses: ["hmac-sha256"],
        optional: true,
      },
    ];
    return { name: NAME, version: VERSION, settingsSchema: JSON.stringify(schema), needs, attributes: [] };
  },
};

/** @param {Event} event */
function deadlineOf(event) {
  return Deadline.within(event.budgetMs, settings.timeoutMs);
}

/** @param {Event} event @param {Deadline} deadline */
function begin(event, deadline) {
  /** @type {Record<string, string>} */
  const headers = {
    "content-type": event.contentType,
    "user-agent": `${NAME}/${VERSION}`,
    // The same on every attempt: a receiver that remembers it can tell a repeated delivery.
    "webhook-id": event.dedupId,
    "webhook-timestamp": `${Math.floor(Date.now() / 1000)}`,
  };
  if (settings.signingSecret) {
    const head = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
    headers["webhook-signature"] = signature(settings.signingSecret, head, event.payload);
  }
  return start(settings.url, headers, event.payload, deadline);
}

/**
 * @param {Request} request
 * @returns {Receipt}
 */
function finish(request) {
  const answer = request.answer();
  const failure = ofAnswer(answer);
  if (failure) {
    throw failure;
  }
  const attributes = /** @type {[string, string][]} */ ([["status", `${answer.status}`]]);
  return { disposition: "delivered", reference: answer.headers.get("location"), attributes };
}

/**
 * What the step returns, or the failure it ended with.
 * @template T
 * @param {() => T} step
 * @returns {T | Failed}
 */
function attempt(step) {
  try {
    return step();
  } catch (error) {
    return ofThrown(error);
  }
}

/**
 * As standardwebhooks.com has it: one for each of the secret's keys, so that receivers can rotate.
 * @param {string} secret
 * @param {string} head
 * @param {Uint8Array} payload
 */
function signature(secret, head, payload) {
  const start = new TextEncoder().encode(head);
  const signed = new Uint8Array(start.length + payload.length);
  signed.set(start);
  signed.set(payload, start.length);
  try {
    const made = sign(secret, "hmac-sha256", signed);
    return made.map(({ bytes }) => `v1,${btoa(String.fromCharCode(...bytes))}`).join(" ");
  } catch (error) {
    throw failed("misconfigured", "signing", `signing with "${secret}": ${payloadOf(error).val}`);
  }
}

/** A missing grant shows when the plugin is loaded, not when the first event comes. @param {string} secret */
function trySigning(secret) {
  try {
    sign(secret, "hmac-sha256", new Uint8Array());
  } catch (error) {
    const { tag, val: message } = payloadOf(error);
    if (tag === "unusable") {
      // A key that can't be read now may be there in a moment.
      throw new Refused({ tag: "unavailable", val: message });
    }
    throw wrong({ pointer: pointer("signing_secret"), message });
  }
}
