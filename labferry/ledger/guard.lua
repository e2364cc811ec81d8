-- May a step of `move` be taken, and what does it count?
-- Takes the KEYS and ARGV of move.lua, which goes on below; `refusal` returns its numbers.
local sources, target, flag = ARGV[1], ARGV[2], {}
for letter in ARGV[3]:gmatch('.') do flag[letter] = true end

local function refusal(record, path, token, fingerprint)
  if not record then return 3 end
  local newest = token == token_of(record)
  if flag.h and newest and is(record, target) then return 5 end
  if (flag.h or token > 0) and not newest then return 2 end
  if not is(record, sources) then return 1 end
  -- A lease that the holder renewed since it was seen to lapse is the holder's.
  local ends = flag.l and not flag.h and redis.call('ZSCORE', KEYS[3], path)
  if ends and (token == 0 or tonumber(ends) > now) then return 2 end
  if flag.e and fingerprint ~= record:sub(15, 46) then return 4 end
  return 0
end

-- Return the counters, that at `place` grown by one; with a new series the others begin anew.
local function grow(record, place)
  local attempt, lost, rounds, series = record:byte(2, 5)
  local counters = place == 5 and { 0, 0, 0, series } or { attempt, lost, rounds, series }
  counters[place - 1] = math.min(counters[place - 1] + 1, 255)
  return string.char(unpack(counters))
end
