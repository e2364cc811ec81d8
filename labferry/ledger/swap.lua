-- Put a new value in the place of the one that was seen, if nobody changed it since.
-- KEYS: hash; with an alert also those of announce.lua
-- ARGV: field, revision that was seen (0: none), new value or '' for none, alert's key or '', text
-- Returns 1, or 0 where another value is there. A value begins with its revision and a blank.
local known = redis.call('HGET', KEYS[1], ARGV[1])
local revision = known and known:match('^%d+') or '0'
if revision ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
if ARGV[4] ~= '' then announce(2, ARGV[4], ARGV[5], 0) end
return 1
