"""How does a worker outlive an SQS that is away? It asks again a second later.

kombu 5.7 takes a request that timed out, or that the service failed, for an empty list of messages
where it looks for a document: that ended the worker, with the uploads it had begun.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.transport import SQS


class Channel(SQS.Channel):
    """kombu's own, but for that."""

    def _on_messages_ready(
        self, queue: str, qname: str, messages: Mapping[str, Any] | Sequence[Any]
    ) -> int:
        ready = super()._on_messages_ready  # type: ignore[misc]  # the stubs do not know of it
        taken: int = ready(queue, qname, messages or {})
        return taken


class Transport(SQS.Transport):
    """kombu's own, with these channels."""

    Channel = Channel
