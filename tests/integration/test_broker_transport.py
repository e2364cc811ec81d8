"""Does a worker go on taking messages, and what does it leave behind in Redis?"""

from typing import Any

import redis
from kombu import Connection, Consumer, Exchange, Message, Queue

from labferry.broker_transport import guard_transports
from tests.waiting import PATIENCE_S

QUEUE = Queue("taken", Exchange(""), routing_key="taken")


def test_a_message_that_was_handed_out_leaves_nothing_and_takes_no_place(broker_url: str) -> None:
    """Were it noted until it is acknowledged, an answer of Redis that is lost would keep a place
    from the worker, and two round trips be made for each message."""
    guard_transports()
    server = redis.from_url(broker_url)
    taken: list[Message] = []
    with Connection(broker_url) as connection:
        channel: Any = connection.channel()
        channel.basic_qos(0, 1, False)
        producer = connection.Producer()
        for body in ("first", "second", "third"):
            producer.publish(body, routing_key=QUEUE.name, declare=[QUEUE])
        with Consumer(channel, [QUEUE], on_message=taken.append):
            for settle in (Message.ack, Message.reject, Message.requeue):
                connection.drain_events(timeout=PATIENCE_S)
                assert channel.qos.can_consume()
                before = server.info("commandstats")
                settle(taken[-1])
                assert _writes(server.info("commandstats")) == _writes(before)
        keys = [key.decode() for key in server.scan_iter()]
    assert [message.payload for message in taken] == ["first", "second", "third"]
    assert [key for key in keys if "unacked" in key] == []


def test_a_message_of_a_queue_that_was_left_is_given_back_and_takes_no_place(
    broker_url: str,
) -> None:
    """A worker leaves the queue of a share that is away while messages of it are on their way."""
    guard_transports()
    server = redis.from_url(broker_url)
    with Connection(broker_url) as connection:
        channel: Any = connection.channel()
        channel.basic_qos(0, 1, False)
        connection.Producer().publish("left", routing_key=QUEUE.name, declare=[QUEUE])
        transport: Any = connection.transport
        transport._deliver(channel._get(QUEUE.name), QUEUE.name)
        assert channel.qos.can_consume()
        assert server.llen(QUEUE.name) == 1
        assert [key for key in server.scan_iter() if b"unacked" in key] == []


def test_a_channel_makes_one_client_for_all_that_it_sends(broker_url: str) -> None:
    guard_transports()
    with Connection(broker_url) as connection:
        channel: Any = connection.channel()
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
        channel._disconnect_pools()  # as when the connection was lost
        with channel.conn_or_acquire() as later:
            assert later is not first
            assert later.ping()


def _writes(stats: dict[str, dict[str, int]]) -> dict[str, int]:
    names = ("cmdstat_zrem", "cmdstat_hdel", "cmdstat_zadd")
    return {name: stats[name]["calls"] for name in names if name in stats}
