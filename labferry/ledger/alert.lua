-- Record an alert, once a key.
-- KEYS: as announce.lua
-- ARGV: key, text, how many files it is about now
-- Returns 1 for a new one, else 0.
return announce(1, ARGV[1], ARGV[2], tonumber(ARGV[3]))
