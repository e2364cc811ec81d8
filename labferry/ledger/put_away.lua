-- Put a complete run's records aside, to be forgotten piece by piece, once they are in an archive.
-- KEYS: meta hash, files hash, hash of files to be forgotten, keys that a run at rest needs not, ...
-- ARGV: number of moves that was seen, archive as JSON
-- Returns 1, or 0 where something of the run moved since, or it is not complete.
local run = redis.call('HMGET', KEYS[1], 'archive', 'moves', 'completed', 'generation')
if run[1] then return run[1] == ARGV[2] and 1 or 0 end
if (run[2] or '0') ~= ARGV[1] or not run[3] or run[3] ~= run[4] then return 0 end
redis.call('HSET', KEYS[1], 'archive', ARGV[2])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[3]) end
for i = 4, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
