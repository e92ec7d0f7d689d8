// The destination's settings: the table `settings` of the operator's config, checked.
// `settings.schema.json` says the same to people and tools; keep the two together.

/** @import { ConfigureError, SettingsProblem } from "outhaul:delivery/types@1.0.0" */
/** @typedef {{ url: string, timeoutMs?: number, signingSecret?: string }} Settings */

const NAMES = ["url", "timeout_ms", "signing_secret"];

/** `configure` throws it. `payload` is what the host gets. */
export class Refused extends Error {
  /** @param {ConfigureError} payload */
  constructor(payload) {
    super(JSON.stringify(payload));
    this.name = "Refused";
    this.payload = payload;
  }
}

/** @param {...SettingsProblem} problems */
export function wrong(...problems) {
  return new Refused({ tag: "settings", val: problems });
}

/**
 * @param {string} text
 * @returns {Settings}
 */
export function parse(text) {
  const { url, timeout_ms: timeoutMs, signing_secret: signingSecret, ...unknown } = JSON.parse(text);
  /** @type {SettingsProblem[]} */
  const problems = [];
  /** @param {boolean} isRight @param {string} name @param {string} message */
  const expect = (isRight, name, message) => {
    if (!isRight) {
      problems.push({ pointer: pointer(name), message });
    }
  };
  for (const name of Object.keys(unknown)) {
    expect(false, name, `unknown; the settings are ${NAMES.join(", ")}`);
  }
  expect(isUrl(url), "url", "must be an address such as https://example.com/hooks");
  const isTime = Number.isSafeInteger(timeoutMs) && timeoutMs > 0;
  expect(timeoutMs === undefined || isTime, "timeout_ms", "must be a whole number of milliseconds above 0");
  const isName = typeof signingSecret === "string" && signingSecret !== "";
  expect(signingSecret === undefined || isName, "signing_secret", "must be the name of one of the destination's secrets");
  if (problems.length > 0) {
    throw wrong(...problems);
  }
  return { url, timeoutMs, signingSecret };
}

/** @param {unknown} value */
function isUrl(value) {
  if (typeof value !== "string" || !/^https?:\/\/[^/?#@\s]+([/?][!-~]*)?$/.test(value)) {
    return false;
  }
  try {
    return new URL(value).host !== "";
  } catch {
    return false;
  }
}

/** A JSON Pointer (RFC 6901) to a setting. @param {string} name */
export function pointer(name) {
  return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
