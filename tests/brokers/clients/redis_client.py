"""Redis by its own client: reads streams, and runs single commands.

redis_client.py PORT read STREAM...
redis_client.py PORT run WORD...
"""

import base64
import json
import sys

import redis

# What the suite knows an event's parts by.
NAMES = {"event-id": "Outhaul-Event-Id", "topic": "Outhaul-Topic", "key": "Outhaul-Key", "tenant": "Outhaul-Tenant"}


def entry(stream, fields):
    payload = fields.pop(b"payload")
    headers = {}
    for name, value in fields.items():
        name = name.decode()
        headers[NAMES.get(name, name.removeprefix("header:"))] = value.decode()
    return {"place": stream, "headers": headers, "payload": base64.b64encode(payload).decode()}


def read(connection, streams):
    for stream in streams:
        start = "-"
        while entries := connection.xrange(stream, min=start, count=500):
            for number, fields in entries:
                print(json.dumps(entry(stream, fields)))
            start = b"(" + number


def main():
    port, command, *arguments = sys.argv[1:]
    connection = redis.Redis(port=int(port), socket_timeout=30)
    if command == "read":
        read(connection, arguments)
    else:
        print(connection.execute_command(*arguments))


main()
