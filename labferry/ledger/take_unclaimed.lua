-- Return bundles that were sent and not claimed in time, to be sent again; the time doubles.
-- KEYS: sent zset, bundles hash
-- ARGV: limit, resend_ms, longest resend_ms
-- Returns [number, lane, tries, attempt, series, [path, ...]] a bundle.
local bundles = {}
local late = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, tonumber(ARGV[1]))
for _, number in ipairs(late) do
  local packed = redis.call('HGET', KEYS[2], number)
  if not packed then
    redis.call('ZREM', KEYS[1], number)
  else
    local bundle = cmsgpack.unpack(packed)
    bundle[2] = bundle[2] + 1
    local wait = math.min(tonumber(ARGV[2]) * 2 ^ bundle[2], tonumber(ARGV[3]))
    redis.call('HSET', KEYS[2], number, cmsgpack.pack(bundle))
    redis.call('ZADD', KEYS[1], now + wait, number)
    bundles[#bundles + 1] = { tonumber(number), unpack(bundle) }
  end
end
return bundles
