"""Does a worker outlive an SQS that times out or fails?"""

from kombu.transport import TRANSPORT_ALIASES
from kombu.utils.imports import symbol_by_name

from labferry.broker_sqs import Channel, Transport
from labferry.broker_transport import guard_transports


def test_a_request_that_failed_has_brought_no_message() -> None:
    """kombu gives an empty list then, and ends over it."""
    channel = Channel.__new__(Channel)
    assert channel._on_messages_ready("https://sqs/1/q", "q", []) == 0
    assert channel._on_messages_ready("https://sqs/1/q", "q", {}) == 0


def test_workers_use_such_channels() -> None:
    guard_transports()
    assert symbol_by_name(TRANSPORT_ALIASES["sqs"]) is Transport
    assert Transport.Channel is Channel
