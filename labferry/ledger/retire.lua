-- Take a run off the index of active runs.
-- KEYS: active zset
-- ARGV: run, the longest a call can take in ms
-- Returns 1, or 0 where it was put there so lately that the move may still be underway.
local since = redis.call('ZSCORE', KEYS[1], ARGV[1])
if since and now - since < tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
