-- How many files of an instrument may be leased, beside those of all its runs that are?
-- Takes no KEYS and no ARGV of its own and returns nothing; the verb's own file goes on below.

-- Return what is free of the cap, or math.huge where it is 0. `known` is a set of leases zsets; those
-- without a lease leave it, so that it has never more than leases. Counted anew each time: nothing
-- that could drift.
local function free_of_cap(known, most)
  if most == 0 then return math.huge end
  for _, leases in ipairs(redis.call('SMEMBERS', known)) do
    local count = redis.call('ZCARD', leases)
    if count == 0 then redis.call('SREM', known, leases) end
    most = most - count
  end
  return most
end
