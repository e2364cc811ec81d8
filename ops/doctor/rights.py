"""May the account run every command that labferry sends to its ledger, or Celery to its broker?

The server itself is asked, by a script: as of version 7 one may ask what its account may run, and
nothing is run.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from labferry.broker import queue_names
from labferry.messages import CONTROL_QUEUE
from labferry.settings import Settings

#: Returns those of its arguments, each a command with its words, that the account may not run.
_SCRIPT = """
local refused = {}
for _, command in ipairs(ARGV) do
  local words = {}
  for word in command:gmatch('%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then refused[#refused + 1] = command end
end
return refused
"""
#: Commands of one key.
_OF_LEDGER = (
    "DEL", "EXISTS", "GET", "HDEL", "HEXISTS", "HGET", "HGETALL", "HINCRBY", "HKEYS", "HLEN",
    "HMGET", "HSCAN", "HSET", "HSETNX", "INCRBY", "LINDEX", "LLEN", "LPOP", "LPUSH", "LRANGE",
    "PEXPIRE", "RPUSH", "SADD", "SET", "SMEMBERS", "SREM", "UNLINK", "ZADD", "ZCARD", "ZRANGE",
    "ZRANGEBYSCORE", "ZREM", "ZSCAN", "ZSCORE",
)  # fmt: skip
_OF_BROKER = (
    "BRPOP", "DEL", "EXISTS", "GET", "HDEL", "HGET", "HSET", "LLEN", "LPUSH", "PEXPIRE", "RPOP",
    "SADD", "SET", "SMEMBERS", "SREM", "ZADD", "ZRANGE", "ZRANGEBYSCORE", "ZREM",
)  # fmt: skip
_LEDGER_KEY = "labferry:runs"
_BINDING = "_kombu.binding."
_CHANNEL = "/{db}.celeryev/worker.heartbeat"
_SHOWN = 3


def of_ledger() -> Iterator[str]:
    """Yield what is asked of a ledger, as commands with their words."""
    yield from ("TIME", "PING", "SCRIPT LOAD x", f"EVALSHA x 1 {_LEDGER_KEY}")
    yield from (f"{command} {_LEDGER_KEY}" for command in _OF_LEDGER)
    yield f"RENAME {_LEDGER_KEY} {_LEDGER_KEY}"


def of_broker(settings: Settings, database: int) -> Iterator[str]:
    """Yield what is asked of a broker by Celery, its workers and Flower."""
    yield from ("PING", "TIME", "MULTI", "EXEC", "SCRIPT LOAD x", "SCRIPT EXISTS x")
    for key in (*queue_names(settings), _BINDING + CONTROL_QUEUE):
        yield from (f"{command} {key} 1" for command in _OF_BROKER)
        yield f"EVALSHA x 1 {key}"
    channel = _CHANNEL.format(db=database)
    yield from (f"{command} {channel}" for command in ("PUBLISH", "PSUBSCRIBE", "PUNSUBSCRIBE"))


def refused(client: Any, commands: Iterator[str]) -> list[str]:
    """Return those that the account may not run; none where the server cannot tell.

    Raises: redis.RedisError, also where it may not run scripts at all.
    """
    try:
        answers: Sequence[bytes] = client.register_script(_SCRIPT)(args=list(commands))
    except NoPermissionError:
        raise
    except ResponseError:  # an older server, which is told apart
        return []
    return [one.decode() for one in answers]


def sentence(commands: Sequence[str]) -> str:
    """Return what an account may not run, as a person reads it."""
    more = len(commands) - _SHOWN
    shown = ", ".join(" ".join(one.split()[:2]) for one in commands[:_SHOWN])
    return f"the account may not {shown}" + (f", and {more} more" if more > 0 else "")
