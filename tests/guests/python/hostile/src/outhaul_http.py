"""In place of the template's: instead of posting the event, does the misdeed that its payload names.

The template's own `app.py` stays, so that what it makes of an exception is tested too.
"""

import json
import sys
import time
from dataclasses import dataclass

from wit_world.imports import log, monotonic_clock

kept = []
calls = 0


class NoAnswer(Exception):
    kind = code = "unused"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    excerpt: str


class Deadline:
    def __init__(self, budget_ms: int, timeout_ms: int | None):
        self.budget_ms = budget_ms


class Request:
    def __init__(self, body: bytes, deadline: Deadline):
        self.body, self.deadline = body, deadline

    def answer(self) -> Answer:
        global calls
        calls += 1
        order = json.loads(self.body)
        found = MISDEEDS[order.pop("misdeed")](**order)
        return found if isinstance(found, Answer) else Answer(200, {"location": str(found)}, "")


def start(url: str, headers: dict[str, str], body: bytes, deadline: Deadline) -> Request:
    return Request(body, deadline)


def spin():
    while True:
        pass


def allocate():
    while True:
        kept.append(bytearray(1 << 20))


def leak(bytes: int):
    kept.append(bytearray(bytes))


def fail():
    raise KeyError("no such customer: Zoë")


def recursion():
    return recursion()


def sleep(ms: int):
    time.sleep(ms / 1000)


def flood(lines: int):
    for number in range(lines):
        log.log(log.Level.INFO, f"line {number}\nforged {{}}")


def handles():
    while True:
        kept.append(monotonic_clock.subscribe_duration(1))


MISDEEDS = {
    "spin": spin,
    "allocate": allocate,
    "leak": leak,
    "fail": fail,
    "recursion": recursion,
    "sleep": sleep,
    "flood": flood,
    "handles": handles,
    "exit": lambda: sys.exit("out of here"),
    "big-reference": lambda: "x" * 10_000_000,
    "big-message": lambda: Answer(422, {}, "x" * 10_000_000),
    "remember": lambda: f"calls={calls}",
}
