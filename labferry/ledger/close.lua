-- End a run without its discarded files: freeze it, and append who did it and why. A run that was
-- not frozen before is not known to be whole, whatever it holds.
-- KEYS: audit list, audit head, meta hash
-- ARGV: head before, head after, line, letters of states in which no file may be, who and why as
--   JSON
-- Returns what stood at the audit's end (chain.lua), or 'not yet' while a file is in such a state.
local found = stands(KEYS[2], ARGV[1], ARGV[2])
if found ~= 'ready' then return found end
for letter in ARGV[4]:gmatch('.') do
  if tonumber(redis.call('HGET', KEYS[3], 'n:' .. letter) or 0) > 0 then return 'not yet' end
end
if redis.call('HEXISTS', KEYS[3], 'sealed') == 0 then redis.call('HSET', KEYS[3], 'unfinished', 1) end
redis.call('HSET', KEYS[3], 'closed', ARGV[5], 'sealed', now)
append(KEYS[1], KEYS[2], ARGV[2], ARGV[3])
return found
