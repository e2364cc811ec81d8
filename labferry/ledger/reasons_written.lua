-- Take files off the list of reasons to be written, once theirs is in the bucket.
-- KEYS: meta hash, reasons zset
-- ARGV: path, number of the change that was written, path, number, ...
-- Returns nothing of use. What changed meanwhile, or was written by two, is to be written again: the
-- older document may have come last.
for i = 1, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[i]) or 'nan') == tonumber(ARGV[i + 1]) then
    redis.call('ZREM', KEYS[2], ARGV[i])
  else
    redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[1], 'letters', 1), ARGV[i])
  end
end
return 1
