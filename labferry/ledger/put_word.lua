-- Put an operator's word in its place, or take it off, and append who did it and why.
-- KEYS: audit list, audit head, hash of words
-- ARGV: head before, head after, line, name, word as JSON or '' to take it off
-- Returns what stood at the audit's end (chain.lua).
local found = stands(KEYS[2], ARGV[1], ARGV[2])
if found ~= 'ready' then return found end
if ARGV[5] == '' then redis.call('HDEL', KEYS[3], ARGV[4])
else redis.call('HSET', KEYS[3], ARGV[4], ARGV[5]) end
append(KEYS[1], KEYS[2], ARGV[2], ARGV[3])
return found
