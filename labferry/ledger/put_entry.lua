-- Put an entry of an inbox in the place of the one that was seen, if nobody changed it since.
-- KEYS: entries hash, zset of open ones, zset of all
-- ARGV: key, revision that was seen (0: none), value, 1 where it is open
-- Returns 1, or 0 where another is there.
local known = redis.call('HGET', KEYS[1], ARGV[1])
if (known and known:match('^%d+') or '0') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s', ARGV[2] + 1, ARGV[3]))
redis.call('ZADD', KEYS[3], 'NX', now, ARGV[1])
if ARGV[4] == '1' then redis.call('ZADD', KEYS[2], 'NX', now, ARGV[1])
else redis.call('ZREM', KEYS[2], ARGV[1]) end
return 1
