"""How is a real cluster started for a test? Three primaries, and a replica of the ledger's."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from labferry.ledger.cluster import find_primary
from ops.embedded import Valkey
from ops.loopback import HOST, free_ports
from tests.waiting import eventually

#: Three parts of the slots 0 to 16,383.
PARTS = ((0, 5460), (5461, 10_922), (10_923, 16_383))
#: After which a node counts as dead; the default is 15,000.
NODE_TIMEOUT_MS = 2000


class Node(Valkey):
    """A Valkey that belongs to a cluster."""

    def _choose_ports(self) -> None:
        self.port, self.bus = free_ports(2)

    def _command(self) -> Sequence[str]:
        return [
            *super()._command(),
            *("--cluster-enabled", "yes", "--cluster-port", str(self.bus)),
            *("--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
        ]

    def ask(self, *command: object) -> Any:
        """Return its answer."""
        with redis.Redis(port=self.port, socket_timeout=5) as client:
            return client.execute_command(*command)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three primaries, and a replica of the one that has the ledger's slot."""

    nodes: tuple[Node, ...]

    @property
    def url(self) -> str:
        """Return the URL of the ledger on it."""
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def holder(self) -> Node:
        """Return the primary of the ledger's slot now."""
        _, port = find_primary([node.url() for node in self.nodes])
        return next(node for node in self.nodes if node.port == port)

    def replica(self) -> Node:
        """Return the one node that is a replica now."""
        return next(node for node in self.nodes if node.ask("ROLE")[0] == b"slave")

    def is_whole(self) -> bool:
        """Whether all nodes agree on it, and the replica has what its primary has."""
        with contextlib.suppress(redis.RedisError, StopIteration):
            role, holder = self.replica().ask("ROLE"), self.holder().ask("CLUSTER MYID").decode()
            known = [node.ask("CLUSTER REPLICAS", holder) for node in self.nodes]
            return all(known) and role[3] == b"connected"
        return False


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Yield a cluster in which every node knows every other."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node()) for _ in range(4)]
        for node, (first, last) in zip(nodes, PARTS, strict=False):
            node.ask("CLUSTER ADDSLOTSRANGE", first, last)
        for number, node in enumerate(nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
            node.ask("CLUSTER MEET", HOST, nodes[0].port, nodes[0].bus)
        eventually(lambda: all(_knows_all(node) for node in nodes))
        cluster = Cluster(tuple(nodes))
        nodes[-1].ask("CLUSTER REPLICATE", cluster.holder().ask("CLUSTER MYID"))
        eventually(cluster.is_whole)
        yield cluster


def _knows_all(node: Node) -> bool:
    found = node.ask("CLUSTER INFO")
    return bool(found["cluster_state"] == "ok" and found["cluster_known_nodes"] == "4")
