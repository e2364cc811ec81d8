-- What do moves into and out of quarantine leave behind?
-- Takes the KEYS and ARGV of move.lua, which goes on below; `keep_letters` returns nothing.

-- Keep the index of dead letters, and number each change, so that its reason is written to the
-- bucket once more if another change comes meanwhile.
local function keep_letters(paths)
  local since, changes = {}, {}
  local number = redis.call('HINCRBY', KEYS[2], 'letters', #paths) - #paths
  for i, path in ipairs(paths) do
    push(since, now, path)
    push(changes, number + i, path)
  end
  if flag.i then call('ZADD', KEYS[8], since) end
  if flag.o then call('ZREM', KEYS[8], paths) end
  call('ZADD', KEYS[9], changes)
end
