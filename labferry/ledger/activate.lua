-- Put a run on an index of runs: the active ones, before something of it moves.
-- KEYS: the index, a zset
-- ARGV: run
-- Returns 1.
redis.call('ZADD', KEYS[1], now, ARGV[1])
return 1
