-- Make bundles of eligible files that no message carries yet, and record them as sent.
-- KEYS: files hash, meta hash, ready list, sent zset, bundles hash
-- ARGV: eligible letter, lane, bundles, files a bundle, bytes a bundle, resend_ms
-- Returns [number, attempt, series, [path, ...]] a bundle. A stale entry of the list is dropped.
local most_files, most_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local bundles, taken = {}, {}
for _ = 1, tonumber(ARGV[3]) do
  local paths, bytes, attempt, series = {}, 0, 0, 0
  while #paths < most_files do
    local path = redis.call('LPOP', KEYS[3])
    if not path then break end
    local record = redis.call('HGET', KEYS[1], path) or nil
    if is(record, ARGV[1]) and record:sub(6, 6) == ARGV[2] and not taken[path] then
      if #paths > 0 and bytes + size_of(record) > most_bytes then
        redis.call('LPUSH', KEYS[3], path)
        break
      end
      bytes = bytes + size_of(record)
      paths[#paths + 1], taken[path] = path, true
      attempt, series = record:byte(2), record:byte(5)
    end
  end
  if #paths == 0 then break end
  if #paths > 1 then attempt, series = 0, 0 end
  local number = redis.call('HINCRBY', KEYS[2], 'bundles', 1)
  redis.call('HSET', KEYS[5], number, cmsgpack.pack({ ARGV[2], 0, attempt, series, paths }))
  redis.call('ZADD', KEYS[4], now + tonumber(ARGV[6]), number)
  bundles[#bundles + 1] = { number, attempt, series, paths }
end
return bundles
