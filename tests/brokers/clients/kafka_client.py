"""Kafka by librdkafka's own client for Python: makes topics, reads them, and produces to compare.

kafka_client.py SERVERS create TOPIC PARTITIONS [CONFIG-JSON [REPLICAS-JSON]]
kafka_client.py SERVERS read TOPIC
kafka_client.py SERVERS count TOPIC
kafka_client.py SERVERS partitions TOPIC COUNT     where it puts the keys customer-0 … customer-COUNT, as JSON
kafka_client.py SERVERS deny USER TOPIC            lets nobody but another user write to the topic
kafka_client.py SERVERS leader TOPIC               of its partition 0
kafka_client.py SERVERS replicas TOPIC             how many of its partition 0 are in sync
kafka_client.py SERVERS elect TOPIC                the preferred leader of its partition 0 again
"""

import base64
import json
import sys
import time

from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

PATIENCE = 60


def done(futures):
    for future in futures.values():
        future.result(PATIENCE)


def create(servers, topic, partitions, config="{}", replicas=None):
    made = NewTopic(topic, int(partitions), config=json.loads(config), **assigned(replicas))
    admin = AdminClient(servers)
    done(admin.create_topics([made], operation_timeout=PATIENCE))
    # The controller has it; the brokers hear of it a little later, all partitions and leaders at once.
    while (known := admin.list_topics(topic, PATIENCE).topics[topic]).error or any(
        partition.leader < 0 for partition in known.partitions.values()
    ):
        time.sleep(0.02)


def assigned(replicas):
    return {"replica_assignment": json.loads(replicas)} if replicas else {"replication_factor": 1}


def ends(consumer, topic):
    partitions = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
    for number in sorted(partitions):
        yield number, *consumer.get_watermark_offsets(TopicPartition(topic, number), PATIENCE)


def reader(servers):
    return Consumer({**servers, "group.id": "reader", "enable.auto.commit": False})


def read(servers, topic):
    consumer = reader(servers)
    for number, first, end in list(ends(consumer, topic)):
        consumer.assign([TopicPartition(topic, number, first)])
        while first < end:
            message = consumer.poll(PATIENCE)
            assert message is not None and message.error() is None, message and message.error()
            show(message)
            first = message.offset() + 1


def show(message):
    # What is no header stands among them by a name that no header has.
    headers = {name: value.decode() for name, value in message.headers() or []}
    key = message.key()
    headers["record key"] = key.decode() if key is not None else "none"
    headers["record partition"] = str(message.partition())
    headers["record time"] = str(message.timestamp()[1])
    payload = base64.b64encode(message.value()).decode()
    print(json.dumps({"place": message.topic(), "headers": headers, "payload": payload}))


def count(servers, topic):
    print(sum(end - first for _, first, end in ends(reader(servers), topic)))


def partitions(servers, topic, count):
    producer, chosen = Producer({**servers, "partitioner": "murmur2_random"}), {}
    for number in range(int(count)):
        key = f"customer-{number}"
        told = lambda error, message, key=key: chosen.update({key: message.partition()})
        producer.produce(topic, b"", key, on_delivery=told)
    producer.flush(PATIENCE)
    assert len(chosen) == int(count)
    print(json.dumps(chosen))


def deny(servers, user, topic):
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    admin = AdminClient(servers)
    done(admin.create_acls([binding]))


def leader(servers, topic):
    print(AdminClient(servers).list_topics(topic, PATIENCE).topics[topic].partitions[0].leader)


def replicas(servers, topic):
    print(len(AdminClient(servers).list_topics(topic, PATIENCE).topics[topic].partitions[0].isrs))


def elect(servers, topic):
    admin = AdminClient(servers)
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(PATIENCE)


def main():
    servers, command, *arguments = sys.argv[1:]
    commands = [create, read, count, partitions, deny, leader, replicas, elect]
    {each.__name__: each for each in commands}[command]({"bootstrap.servers": servers}, *arguments)


main()
