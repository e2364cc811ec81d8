-- Apply one event to many files; those that may not be moved are left as they are.
-- KEYS: files hash, meta hash, leases zset, due zset, history prefix, ready prefix, upload prefix,
--   dead zset, reasons zset
-- ARGV: sources, target, flags (effects.py), counter's place or 0, date's place or 0, msgpack
--   [[path, token, fingerprint, lane, evidence, delay_ms, note], ...] with '' for none
-- Returns one number a file: 0 done, 1 illegal, 2 fenced, 3 missing, 4 different, 5 done before.
return apply()
