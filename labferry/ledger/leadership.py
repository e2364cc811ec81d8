"""Which process leads? The one that holds a short lock with a token of its own."""

from redis.exceptions import LockError

from labferry.ledger.server import Server


class RedisLeadership:
    """The Leadership port on redis-py's lock: set if absent, extend and delete by token."""

    def __init__(self, server: Server, key: str, keep_s: float) -> None:
        self._server = server
        self._lock = server.client.lock(key, timeout=keep_s, blocking=False, thread_local=False)
        self._leads = False

    def keep(self) -> bool:
        """Acquire or extend; return whether this process leads."""
        self._leads = self.extend() or bool(self._server.ask(self._lock.acquire))
        return self._leads

    def extend(self) -> bool:
        """Extend what this process leads; return whether it still did."""
        return self._leads and bool(self._server.ask(self._extend))

    def _extend(self) -> bool:
        try:
            return bool(self._lock.reacquire())
        except LockError:  # it ran out, or was released meanwhile: another may lead already
            return False

    def release(self) -> None:
        """Let another lead at once."""
        if self._leads:
            self._leads = False
            self._server.ask(self._release)

    def _release(self) -> None:
        try:
            self._lock.release()
        except LockError:  # it ran out meanwhile: another may lead already
            return
