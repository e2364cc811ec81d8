-- Freeze a run of which all files are settled, but for those that go up last.
-- KEYS: files hash, meta hash, last set
-- ARGV: discovered letter, skipped letter, files the scan saw, last path, ...
-- Returns 1, or 0 where the run is not like that or is frozen or complete already.
local run = redis.call('HMGET', KEYS[2], 'sealed', 'completed', 'generation', 'n:' .. ARGV[1])
if run[1] or not run[3] or run[2] == run[3] then return 0 end
local known, meta = 0, redis.call('HGETALL', KEYS[2])
for i = 1, #meta, 2 do
  if meta[i]:sub(1, 2) == 'n:' and meta[i] ~= 'n:' .. ARGV[2] then known = known + meta[i + 1] end
end
-- Fewer than were seen: the ledger lost records since; the next scan finds them again.
if known < tonumber(ARGV[3]) then return 0 end
local last, waiting = {}, 0
for i = 4, #ARGV do last[i - 3] = ARGV[i] end
for _, record in pairs(find_records(KEYS[1], last)) do
  if is(record, ARGV[1]) then waiting = waiting + 1 end
end
if waiting ~= tonumber(run[4] or 0) then return 0 end
redis.call('HSET', KEYS[2], 'sealed', now)
redis.call('HDEL', KEYS[2], 'unfinished')
redis.call('DEL', KEYS[3])
call('SADD', KEYS[3], last)
return 1
