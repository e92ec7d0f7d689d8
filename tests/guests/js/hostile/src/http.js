// In place of the template's: instead of posting the event, does the misdeed that its payload names. The
// template's own `plugin.js` stays, so that what it makes of an exception is tested too.
//
// The misdeeds are TypeScript, which a project may mix in.

/** @import { Order } from "./misdeeds.ts" */
import { commit } from "./misdeeds.ts";

/** @typedef {{ status: number, headers: Map<string, string>, excerpt: string }} Answer */

export class NoAnswer extends Error {
  /** @type {"unreachable" | "forbidden" | "unsendable" | "uncertain"} */
  kind = "uncertain";
  code = "unused";
}

export class Deadline {
  /** @param {bigint} _budgetMs @param {number} [_timeoutMs] */
  static within(_budgetMs, _timeoutMs) {
    return new Deadline();
  }
}

/** @param {string} _url @param {Record<string, string>} _headers @param {Uint8Array} body @param {Deadline} _deadline */
export function start(_url, _headers, body, _deadline) {
  return {
    /** @returns {Answer} */
    answer() {
      const order = /** @type {Order} */ (JSON.parse(new TextDecoder().decode(body)));
      return commit(order);
    },
  };
}

/** @param {unknown} error @returns {any} */
export function payloadOf(error) {
  throw error;
}
