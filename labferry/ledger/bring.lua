-- Bring some files of an archive, beside those on record until all are there.
-- KEYS: meta hash, hash of files brought, history prefix
-- ARGV: archive as JSON, msgpack [[path, record, [line, ...]], ...]
-- Returns 1, or 0 where it is not the run's archive any more.
if redis.call('HGET', KEYS[1], 'archive') ~= ARGV[1] then return 0 end
local files = {}
for _, file in ipairs(cmsgpack.unpack(ARGV[2])) do
  push(files, file[1], file[2])
  redis.call('DEL', KEYS[3] .. file[1])
  call('RPUSH', KEYS[3] .. file[1], file[3])
end
call('HSET', KEYS[2], files)
return 1
