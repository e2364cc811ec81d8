-- Retry files whose due time has come: each becomes eligible. A failed one becomes a bundle of its
-- own, sent; a held one, with which nothing is wrong, waits for a message as before.
-- KEYS: files hash, meta hash, due zset, sent zset, bundles hash, ready prefix
-- ARGV: sources, sources that wait for a message, target, limit, resend_ms
-- Returns how many were due, then [number, attempt, series, lane letter, path] a bundle.
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, tonumber(ARGV[4]))
local records, replies, queues = find_records(KEYS[1], due), { #due }, {}
call('ZREM', KEYS[3], due)
for _, path in ipairs(due) do
  if is(records[path], ARGV[1]) then
    local waits = is(records[path], ARGV[2])
    local record = redraw(records[path], ARGV[3], {})
    redis.call('HSET', KEYS[1], path, record)
    local attempt, series, lane = record:byte(2), record:byte(5), record:sub(6, 6)
    if waits then
      push(list_of(queues, lane), path)
    else
      local number = redis.call('HINCRBY', KEYS[2], 'bundles', 1)
      redis.call('HSET', KEYS[5], number, cmsgpack.pack({ lane, 0, attempt, series, { path } }))
      redis.call('ZADD', KEYS[4], now + tonumber(ARGV[5]), number)
      push(replies, { number, attempt, series, lane, path })
    end
  end
end
for lane, waiting in pairs(queues) do call('RPUSH', KEYS[6] .. lane, waiting) end
save_counts(KEYS[2])
return replies
