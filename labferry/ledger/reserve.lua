-- Take bytes of some limits.
-- KEYS: hash limit -> when what was taken of it will have been read, ms; `limit rate` -> at which rate
-- ARGV: bytes, ms that nobody is ahead, name, bytes a second, name, bytes a second, ...
-- Returns in how many ms they may be read.
local wait = 0
for i = 3, #ARGV, 2 do
  local name, rate = ARGV[i], tonumber(ARGV[i + 1])
  local known = redis.call('HMGET', KEYS[1], name, name .. ' rate')
  local takes = tonumber(ARGV[1]) * 1000 / rate
  -- What was taken at a lower rate is read at this one now.
  local faster = math.max(rate / tonumber(known[2] or rate), 1)
  local ahead = math.max(tonumber(known[1] or 0) - now, 0) / faster
  -- Further ahead than all workers together can be: the clock was set back.
  if ahead > math.max(tonumber(ARGV[2]), 100 * takes) then ahead = 0 end
  redis.call('HSET', KEYS[1], name, string.format('%.3f', now + ahead + takes), name .. ' rate', ARGV[i + 1])
  wait = math.max(wait, ahead)
end
return math.ceil(wait)
