-- What does every script begin with? Its instant, and ways with long lists.
-- Takes no KEYS and no ARGV of its own and returns nothing; the verb's own file goes on below.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Call `act` with all values, in slices of an even number: Lua's stack takes some 8,000.
local function in_slices(values, act)
  for first = 1, #values, 4000 do act(unpack(values, first, math.min(first + 3999, #values))) end
end

-- Give a command of a key all values.
local function call(command, key, values)
  in_slices(values, function(...) redis.call(command, key, ...) end)
end

-- Add one or two values to the end of a list.
local function push(list, one, two)
  list[#list + 1] = one
  list[#list + 1] = two
end

-- Return the list under a name, a new one at first.
local function list_of(lists, name)
  lists[name] = lists[name] or {}
  return lists[name]
end
