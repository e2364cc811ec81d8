-- Record files never seen before.
-- KEYS: files hash, meta hash
-- ARGV: state letter, lane letter until SETTLE says, msgpack [[path, fingerprint], ...]
-- Returns how many were new. Anything new reopens a sealed, not yet completed generation. Of a run
-- whose records are in an archive nothing is new before they are taken back.
if redis.call('HEXISTS', KEYS[2], 'archive') == 1 then return 0 end
local head = ARGV[1] .. string.rep('\0', 4) .. ARGV[2] .. string.rep('\0', 8)
local new = 0
for _, seen in ipairs(cmsgpack.unpack(ARGV[3])) do
  local path, record = seen[1], head .. seen[2] .. stamp .. stamp
  if redis.call('HSETNX', KEYS[1], path, record) == 1 then
    new = new + 1
    count(ARGV[1], 1, size_of(record))
  end
end
if new == 0 then return 0 end
redis.call('HSETNX', KEYS[2], 'opened', now)
redis.call('HSETNX', KEYS[2], 'generation', 1)
save_counts(KEYS[2])
reopen(KEYS[2], true, false)
return new
