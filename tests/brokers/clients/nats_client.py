"""NATS by its own client: creates streams, reads them, listens to subjects.

nats_client.py SERVER create STREAM SUBJECT [OPTIONS-JSON]
nats_client.py SERVER read STREAM
nats_client.py SERVER count STREAM
nats_client.py SERVER purge STREAM
nats_client.py SERVER listen SUBJECT
"""

import asyncio
import base64
import json
import sys

import nats
from nats.js.api import StreamConfig


def show(message):
    print(
        json.dumps(
            {
                "place": message.subject,
                "headers": dict(message.headers or {}),
                "payload": base64.b64encode(message.data).decode(),
            }
        ),
        flush=True,
    )


async def read(stream, name):
    info = await stream.stream_info(name)
    left = info.state.messages
    if left == 0:
        return
    subscription = await stream.pull_subscribe("", durable="reader", stream=name)
    while left > 0:
        for message in await subscription.fetch(min(left, 200), timeout=30):
            show(message)
            await message.ack()
            left -= 1


async def main():
    server, command, *arguments = sys.argv[1:]
    connection = await nats.connect(server, connect_timeout=30, allow_reconnect=False)
    stream = connection.jetstream(timeout=30)
    if command == "create":
        name, subject, *options = arguments
        options = json.loads(options[0]) if options else {}
        await stream.add_stream(StreamConfig(name=name, subjects=[subject], **options))
    elif command == "read":
        await read(stream, arguments[0])
    elif command == "count":
        print((await stream.stream_info(arguments[0])).state.messages)
    elif command == "purge":
        await stream.purge_stream(arguments[0])
    elif command == "listen":
        subscription = await connection.subscribe(arguments[0])
        await connection.flush()
        print("ready", flush=True)
        async for message in subscription.messages:
            show(message)
    await connection.close()


asyncio.run(main())
