-- Put items of a batch in the place of those that were seen, count them, and note where they are.
-- KEYS: items hash, counts hash, ended list, prefix of the zset of each open stage
-- ARGV: stage that was seen or '', msgpack [[file, stage, is it open, order, value], ...]
-- Returns 1 an item, or 0 where it is at another stage. A value begins with its stage and a blank.
local seen, replies = ARGV[1], {}
for i, item in ipairs(cmsgpack.unpack(ARGV[2])) do
  local file, stage, open, order, value = unpack(item)
  local known = redis.call('HGET', KEYS[1], file)
  replies[i] = (known and known:match('^%S+') or '') == seen and 1 or 0
  if replies[i] == 1 then
    redis.call('HSET', KEYS[1], file, value)
    if seen ~= '' then
      redis.call('HINCRBY', KEYS[2], seen, -1)
      redis.call('ZREM', KEYS[4] .. seen, file)
    end
    redis.call('HINCRBY', KEYS[2], stage, 1)
    if open then redis.call('ZADD', KEYS[4] .. stage, order, file)
    else redis.call('RPUSH', KEYS[3], file) end
  end
end
return replies
