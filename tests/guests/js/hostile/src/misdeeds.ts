import { log } from "outhaul:log/log@1.0.0";
import { subscribeDuration } from "wasi:clocks/monotonic-clock@0.2.12";

export interface Order {
  misdeed: string;
  bytes?: number;
  lines?: number;
  ms?: number;
}

interface Answer {
  status: number;
  headers: Map<string, string>;
  excerpt: string;
}

class NoSuchCustomer extends Error {
  override name = "NoSuchCustomer";
}

const kept: unknown[] = [];
let calls = 0;

export function commit(order: Order): Answer {
  calls += 1;
  const found = misbehave(order);
  if (typeof found === "object") {
    return found;
  }
  return { status: 200, headers: new Map([["location", found]]), excerpt: "" };
}

function misbehave({ misdeed, bytes = 0, lines = 0, ms = 0 }: Order): string | Answer {
  switch (misdeed) {
    case "spin":
      for (;;);
    case "allocate":
      for (;;) kept.push(new Uint8Array(1 << 20).fill(1));
    case "leak":
      kept.push(new Uint8Array(bytes).fill(1));
      return "";
    case "fail":
      throw new NoSuchCustomer("no such customer: Zoë");
    case "fail-oddly":
      throw "a text";
    case "recursion":
      return misbehave({ misdeed }) + "!";
    case "sleep": {
      using timer = subscribeDuration(BigInt(ms) * 1_000_000n);
      timer.block();
      return "";
    }
    case "flood":
      for (let number = 0; number < lines; number++) log("info", `line ${number}\nforged {}`);
      return "";
    case "handles":
      for (;;) kept.push(subscribeDuration(1n));
    case "big-reference":
      return "x".repeat(1_000_000);
    case "big-message":
      return { status: 422, headers: new Map(), excerpt: "x".repeat(1_000_000) };
    case "remember":
      return `calls=${calls}`;
    default:
      throw new RangeError(`unknown misdeed: ${misdeed}`);
  }
}
