"""The destination's settings: the table `settings` of the operator's config, checked.

`settings.schema.json` says the same to people and tools; keep the two together.
"""

import json
import re
from dataclasses import dataclass

from componentize_py_types import Err
from wit_world.imports.outhaul_delivery_types import ConfigureError_Settings, SettingsProblem

NAMES = ("url", "timeout_ms", "signing_secret")


@dataclass(frozen=True)
class Settings:
    url: str
    timeout_ms: int | None
    signing_secret: str | None

    @classmethod
    def parse(cls, text: str) -> "Settings":
        given = json.loads(text)
        url, timeout_ms, secret = (given.get(name) for name in NAMES)
        problems = []

        def expect(is_right: bool, name: str, message: str) -> None:
            if not is_right:
                problems.append(SettingsProblem(pointer(name), message))

        for name in given:
            expect(name in NAMES, name, f"unknown; the settings are {', '.join(NAMES)}")
        is_url = isinstance(url, str) and re.fullmatch(r"https?://[^/?#@\s]+([/?][!-~]*)?", url)
        expect(bool(is_url), "url", "must be an address such as https://example.com/hooks")
        is_time = type(timeout_ms) is int and timeout_ms > 0
        expect(timeout_ms is None or is_time, "timeout_ms", "must be a whole number of milliseconds above 0")
        is_name = isinstance(secret, str) and secret != ""
        expect(secret is None or is_name, "signing_secret", "must be the name of one of the destination's secrets")
        if problems:
            raise invalid(*problems)
        return cls(url, timeout_ms, secret)


def pointer(name: str) -> str:
    """A JSON Pointer (RFC 6901) to a setting."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def invalid(*problems: SettingsProblem) -> Err:
    return Err(ConfigureError_Settings(list(problems)))
