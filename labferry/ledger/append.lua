-- Append a line to an audit.
-- KEYS: audit list, audit head
-- ARGV: head before, head after, line
-- Returns what stood at the end (chain.lua): 'ready' and 'done' say that the line is there now.
local found = stands(KEYS[2], ARGV[1], ARGV[2])
if found == 'ready' then append(KEYS[1], KEYS[2], ARGV[2], ARGV[3]) end
return found
