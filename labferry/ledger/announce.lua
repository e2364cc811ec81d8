-- How is an alert recorded, once a key?
-- Takes KEYS from a place on: alerts hash, counts hash, log list; no ARGV of its own.
-- `announce` returns 1 for a new alert, else 0; the count of an old one grows.
local function announce(place, key, text, number)
  if number > 0 then redis.call('HINCRBY', KEYS[place + 1], key, number) end
  if redis.call('HSETNX', KEYS[place], key, now .. ' ' .. text) == 0 then return 0 end
  redis.call('RPUSH', KEYS[place + 2], key)
  return 1
end
