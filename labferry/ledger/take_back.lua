-- Put the files that were brought from an archive on record.
-- KEYS: meta hash, hash of files brought, files hash
-- ARGV: archive as JSON, how many files it has
-- Returns 1, or 0 where they are not as many, or it is not the run's archive any more.
if redis.call('HGET', KEYS[1], 'archive') ~= ARGV[1] then return 0 end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2]) then return 0 end
if tonumber(ARGV[2]) > 0 then redis.call('RENAME', KEYS[2], KEYS[3]) end
redis.call('HDEL', KEYS[1], 'archive')
redis.call('HSET', KEYS[1], 'finished', now)
redis.call('HINCRBY', KEYS[1], 'moves', 1)
return 1
