"""RabbitMQ by its team's own client: declares queues, reads them, removes what is in them.

amqp_client.py PORT create QUEUE BINDING-KEY [ARGUMENTS-JSON]
amqp_client.py PORT read QUEUE
amqp_client.py PORT count QUEUE
amqp_client.py PORT purge QUEUE
"""

import base64
import json
import sys

import pika


def show(method, properties, body):
    # A property stands among the headers by a name that no header has.
    headers = dict(properties.headers or {})
    for name in ["content_type", "delivery_mode", "message_id", "timestamp", "type"]:
        headers[f"property {name}"] = str(getattr(properties, name))
    print(
        json.dumps({"place": method.routing_key, "headers": headers, "payload": base64.b64encode(body).decode()})
    )


def main():
    port, command, queue, *arguments = sys.argv[1:]
    parameters = pika.ConnectionParameters(port=int(port), connection_attempts=3, socket_timeout=30)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    if command == "create":
        key, *options = arguments
        channel.queue_declare(queue, durable=True, arguments=json.loads(options[0]) if options else None)
        channel.queue_bind(queue, "amq.topic", key)
    elif command == "read":
        while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
            show(*message)
    elif command == "count":
        print(channel.queue_declare(queue, passive=True).method.message_count)
    elif command == "purge":
        channel.queue_purge(queue)
    connection.close()


main()
