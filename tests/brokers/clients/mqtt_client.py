"""MQTT by Eclipse's own client: listens to topics.

mqtt_client.py PORT listen TOPIC [USER PASSWORD]
"""

import base64
import json
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def show(client, userdata, message):
    properties = getattr(message, "properties", None)
    headers = dict(getattr(properties, "UserProperty", []))
    if hasattr(properties, "ContentType"):
        headers["content-type"] = properties.ContentType
    headers["retain"] = str(message.retain)
    # The broker's own repeat, of what this client had not confirmed.
    headers["dup"] = str(message.dup)
    payload = base64.b64encode(message.payload).decode()
    print(json.dumps({"place": message.topic, "headers": headers, "payload": payload}), flush=True)


def main():
    port, _, topic, *login = sys.argv[1:]
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="reader", protocol=mqtt.MQTTv5)
    if login:
        client.username_pw_set(*login)
    client.on_message = show
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.reconnect_delay_set(min_delay=1, max_delay=1)
    # The broker keeps what comes while it is away.
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    first = True

    def connected(client, userdata, flags, reason, _):
        nonlocal first
        if first:
            client.subscribe(topic, qos=2)
        first = False

    client.on_connect = connected
    client.connect("127.0.0.1", int(port), clean_start=False, properties=properties)
    client.loop_start()
    while True:
        time.sleep(60)


main()
