-- Take the lease on every eligible file of a bundle, each with a new token; of a held run on none.
-- KEYS: files hash, meta hash, leases zset, sent zset, bundles hash, holds, breakers, paces hash,
--   ready prefix, set of the leases zsets of the instrument's runs
-- ARGV: sources, target, bundle number, holder, ttl_ms, date's place, msgpack [path, ...], most leases
--   of the instrument or 0 for no cap, the names under which the run may be held
-- A token is the instant in units of 256 ms, or the old one + 1: none that a crash lost comes again.
-- The ledger's own list of the bundle wins over the message's. The first claim of a series is
-- dated. What is above the cap waits for a message again, before all others. Returns path, record,
-- path, record, ... as they are now; the hold or ''; how many bundles are still sent; the instant;
-- all breakers and all paces, each as name, value, name, value, ...
local claims, leases, queues, hold = {}, {}, {}, ''
for i = #ARGV, 9, -1 do hold = redis.call('HGET', KEYS[6], ARGV[i]) or hold end
if hold == '' then
  local packed = redis.call('HGET', KEYS[5], ARGV[3])
  local paths = packed and cmsgpack.unpack(packed)[5] or cmsgpack.unpack(ARGV[7])
  redis.call('HDEL', KEYS[5], ARGV[3])
  redis.call('ZREM', KEYS[4], ARGV[3])
  local records, free = find_records(KEYS[1], paths), free_of_cap(KEYS[10], tonumber(ARGV[8]))
  local holder, ends, place = tonumber(ARGV[4]), now + tonumber(ARGV[5]), tonumber(ARGV[6])
  local instant = struct.unpack('<I4', stamp, 2)
  for _, path in ipairs(paths) do
    local record = records[path]
    if is(record, ARGV[1]) and #leases / 2 < free then
      local lease = struct.pack('<I4I4', math.max(token_of(record) + 1, instant), holder)
      local first = #record < place and place or nil
      records[path] = redraw(record, ARGV[2], { lease = lease, place = first })
      push(claims, path, records[path])
      push(leases, ends, path)
    elseif is(record, ARGV[1]) and packed then
      table.insert(list_of(queues, record:sub(6, 6)), 1, path)
    end
  end
  call('HSET', KEYS[1], claims)
  call('ZADD', KEYS[3], leases)
  if free < math.huge and #leases > 0 then redis.call('SADD', KEYS[10], KEYS[3]) end
  for lane, waiting in pairs(queues) do call('LPUSH', KEYS[9] .. lane, waiting) end
  save_counts(KEYS[2])
end
local breakers, paces = redis.call('HGETALL', KEYS[7]), redis.call('HGETALL', KEYS[8])
return { claims, hold, redis.call('ZCARD', KEYS[4]), now, breakers, paces }
