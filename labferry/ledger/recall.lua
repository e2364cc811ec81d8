-- Put files back among the dead letters, with all that was known of them.
-- KEYS: files hash, meta hash, history prefix, dead zset, reasons zset
-- ARGV: sources, target, 1 where the bucket tells of them, msgpack
--   [[path, counters, since_ms, [line of its history, ...]], ...]
-- Returns one number a file: 0 done, 1 illegal, 3 missing, 5 done before.
local letters, paths, replies, saves = cmsgpack.unpack(ARGV[4]), {}, {}, {}
for i, letter in ipairs(letters) do paths[i] = letter[1] end
local records = find_records(KEYS[1], paths)
for i, letter in ipairs(letters) do
  local path, counters, since, lines = unpack(letter)
  local record = records[path]
  replies[i] = not record and 3 or is(record, ARGV[2]) and 5 or is(record, ARGV[1]) and 0 or 1
  if replies[i] == 0 then
    records[path] = redraw(record, ARGV[2], { counters = counters })
    push(saves, path, records[path])
    redis.call('DEL', KEYS[3] .. path)
    call('RPUSH', KEYS[3] .. path, lines)
    redis.call('ZADD', KEYS[4], since, path)
    if ARGV[3] == '0' then
      redis.call('ZADD', KEYS[5], redis.call('HINCRBY', KEYS[2], 'letters', 1), path)
    end
  end
end
call('HSET', KEYS[1], saves)
save_counts(KEYS[2])
return replies
