-- How does a line come to the end of an audit? Its hash and its place are the caller's reckoning.
-- Takes no KEYS and no ARGV of its own and returns nothing; the verb's own file goes on below.

-- Tell what stands at the end: 'done' where it is the new line already (a call whose answer was
-- lost), 'other' where it is not the one the line was reckoned for, 'ready' else.
local function stands(head, before, after)
  local found = redis.call('GET', head) or ''
  return found == after and 'done' or found ~= before and 'other' or 'ready'
end

local function append(list, head, after, line)
  redis.call('RPUSH', list, line)
  redis.call('SET', head, after)
end
