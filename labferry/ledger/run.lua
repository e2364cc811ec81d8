-- What do moves of files mean to their run?
-- Takes no KEYS and no ARGV of its own and returns nothing; the verb's own file goes on below.

-- Counts and bytes by state change once a batch: the meta fields n:LETTER and b:LETTER. So does the
-- number of moves, by which is told that nothing moved between two looks.
local counts, sizes = {}, {}
local function count(state, number, size)
  counts[state] = (counts[state] or 0) + number
  sizes[state] = (sizes[state] or 0) + size
end
local function save_counts(meta)
  if next(counts) then redis.call('HINCRBY', meta, 'moves', 1) end
  for state, number in pairs(counts) do
    redis.call('HINCRBY', meta, 'n:' .. state, number)
    redis.call('HINCRBY', meta, 'b:' .. state, sizes[state])
  end
end

-- What is touched undoes the seal; what is queued after the marker opens the next generation, which
-- is sealed from the start if it has the same files.
local function reopen(meta, touched, queued)
  if touched then
    redis.call('HSET', meta, 'changed', now)
    redis.call('HDEL', meta, 'sealed')
  end
  local run = redis.call('HMGET', meta, 'completed', 'generation')
  if queued and run[1] == run[2] then redis.call('HINCRBY', meta, 'generation', 1) end
end
