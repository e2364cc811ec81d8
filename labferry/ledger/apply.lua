-- How is one event applied to many files, each guarded by its state and token (guard.lua)?
-- Takes the KEYS and ARGV of move.lua, which goes on below; `apply` returns one number a file.
local counter, place = tonumber(ARGV[4]), tonumber(ARGV[5])
local steps, paths = cmsgpack.unpack(ARGV[6]), {}
for i, step in ipairs(steps) do paths[i] = step[1] end
local records = find_records(KEYS[1], paths)

local function apply()
  local replies, saves, moved, due, plans, queues = {}, {}, {}, {}, {}, {}
  for i, step in ipairs(steps) do
    local path, token, fingerprint, lane, evidence, delay, note = unpack(step)
    local record = records[path]
    replies[i] = refusal(record, path, token, fingerprint)
    if replies[i] == 0 then
      record = redraw(record, target, {
        counters = counter > 0 and grow(record, counter), lane = lane ~= '' and lane,
        fingerprint = fingerprint ~= '' and fingerprint,
        place = place > 0 and place, stamp = flag.c and '', evidence = evidence,
      })
      records[path] = record
      push(moved, path)
      push(saves, path, record)
      if flag.w then push(due, now + delay, path) end
      if flag.d then push(plans, KEYS[7] .. path) end
      if flag.q then push(list_of(queues, record:sub(6, 6)), path) end
      if note ~= '' then redis.call('RPUSH', KEYS[5] .. path, now .. ' ' .. note) end
    end
  end
  call('HSET', KEYS[1], saves)
  if flag.l then call('ZREM', KEYS[3], moved) end
  if flag.w then call('ZADD', KEYS[4], due) end
  if flag.u then call('ZREM', KEYS[4], moved) end
  if flag.d then in_slices(plans, function(...) redis.call('DEL', ...) end) end
  for lane, waiting in pairs(queues) do call('RPUSH', KEYS[6] .. lane, waiting) end
  if flag.r and #moved > 0 then keep_letters(moved) end
  if #moved > 0 then save_counts(KEYS[2]); reopen(KEYS[2], flag.t, flag.q) end
  return replies
end
