-- Add to what is counted of instruments, and date what moved.
-- KEYS: counters hash, hash instrument -> when it moved
-- ARGV: msgpack [field, n, ...], msgpack [[start of a wait's field, field of their sum,
--   [since_ms, ...]], ...], msgpack [bound_s, ...], name of what lies beyond,
--   msgpack [instrument, ...] that moved
-- Returns nothing. A wait is counted under the first bound that it does not pass.
local function add(field, n) redis.call('HINCRBY', KEYS[1], field, n) end
local counts, bounds = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[3])

local function bound_of(waited)
  for _, bound in ipairs(bounds) do
    if waited <= bound * 1000 then return bound end
  end
  return ARGV[4]
end

for i = 1, #counts, 2 do add(counts[i], counts[i + 1]) end
for _, waits in ipairs(cmsgpack.unpack(ARGV[2])) do
  local within, sum = {}, 0
  for _, since in ipairs(waits[3]) do
    local waited = math.max(now - since, 0)
    local field = waits[1] .. bound_of(waited)
    within[field], sum = (within[field] or 0) + 1, sum + waited
  end
  for field, n in pairs(within) do add(field, n) end
  add(waits[2], sum)
end
for _, instrument in ipairs(cmsgpack.unpack(ARGV[5])) do
  redis.call('HSET', KEYS[2], instrument, now)
end
