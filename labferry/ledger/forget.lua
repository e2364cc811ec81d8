-- Forget some files of a run that were put away, each with its history.
-- KEYS: hash of files to be forgotten, history prefix
-- ARGV: msgpack [path, ...]
-- Returns nothing of use.
for _, path in ipairs(cmsgpack.unpack(ARGV[1])) do
  if redis.call('HDEL', KEYS[1], path) == 1 then redis.call('UNLINK', KEYS[2] .. path) end
end
return 1
