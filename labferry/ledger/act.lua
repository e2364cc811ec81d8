-- Apply an operator's event to many files, all of them or none, and append who did it and why.
-- KEYS: as move.lua, audit list, audit head
-- ARGV: as move.lua, with each file's whole record as it was seen at the end of its step; head
--   before, head after, line
-- Returns what stood at the audit's end (chain.lua) and, where files cannot be moved, their numbers
-- as in move.lua; nothing was done then.
local found = stands(KEYS[11], ARGV[7], ARGV[8])
if found ~= 'ready' then return { found } end
local refusals, refused = {}, false
for i, step in ipairs(steps) do
  local record = records[step[1]]
  refusals[i] = refusal(record, step[1], step[2], step[3])
  if refusals[i] == 0 and record ~= step[8] then refusals[i] = 4 end
  refused = refused or refusals[i] ~= 0
end
if refused then return { found, refusals } end
apply()
append(KEYS[10], KEYS[11], ARGV[8], ARGV[9])
return { found }
