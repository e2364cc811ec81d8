-- Put alerts that a sink has not been given yet on its list of what is to be delivered.
-- KEYS: log list, hash sink -> how much of the log it was given, alerts hash, the sink's due zset
-- ARGV: sink, ms until an alert is due, the longest an alert may be old for a new sink in ms
-- Returns how many were put there.
local from, size = redis.call('HGET', KEYS[2], ARGV[1]), redis.call('LLEN', KEYS[1])
local first, due = tonumber(from or 0), {}
for _, key in ipairs(redis.call('LRANGE', KEYS[1], first, -1)) do
  local at = tonumber(redis.call('HGET', KEYS[3], key):match('^%d+'))
  if from or now - at <= tonumber(ARGV[3]) then
    push(due, at + tonumber(ARGV[2]), key)
  end
end
call('ZADD', KEYS[4], due)
redis.call('HSET', KEYS[2], ARGV[1], size)
return #due / 2
