-- Extend leases.
-- KEYS: files hash, leases zset
-- ARGV: leased letters, ttl_ms, msgpack [[path, token], ...]
-- Returns 1 a file, or 0 where the token is not the newest or the file is not leased.
local paths, leases, replies = {}, {}, {}
local held = cmsgpack.unpack(ARGV[3])
for i, one in ipairs(held) do paths[i] = one[1] end
local records = find_records(KEYS[1], paths)
for i, one in ipairs(held) do
  local path, token = one[1], one[2]
  local holds = is(records[path], ARGV[1]) and token_of(records[path]) == token
  replies[i] = holds and 1 or 0
  if holds then push(leases, now + tonumber(ARGV[2]), path) end
end
call('ZADD', KEYS[2], leases)
return replies
