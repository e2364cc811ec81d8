-- Record a generation's completion marker once, with its event in the outbox.
-- KEYS: meta hash, markers set, outbox list
-- ARGV: generation, files in the manifests, manifest key, manifest digest, marker key, event,
--       letters of states that are not in a manifest
-- Returns 1, or 0 when it was recorded before. Files that came meanwhile open the next generation.
if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('RPUSH', KEYS[3], ARGV[6])
redis.call('HSET', KEYS[1], 'completed', ARGV[1], 'marker', ARGV[5], 'manifest', ARGV[3],
  'digest', ARGV[4], 'finished', now)
local files, meta = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #meta, 2 do
  local letter = meta[i]:match('^n:(.)$')
  if letter and not ARGV[7]:find(letter, 1, true) then files = files + meta[i + 1] end
end
reopen(KEYS[1], false, files > tonumber(ARGV[2]))
return 1
