-- Write fields of a multipart plan, or forget the plan when no field is given.
-- KEYS: files hash, plan hash
-- ARGV: leased letters, path, token, field, value, field, value, ...
-- Returns 1, or 0 where the token is not the newest, the file is not leased, or the fields are parts
-- of a plan that was forgotten.
local record = find_records(KEYS[1], { ARGV[2] })[ARGV[2]]
if not is(record, ARGV[1]) or token_of(record) ~= tonumber(ARGV[3]) then return 0 end
if #ARGV == 3 then redis.call('DEL', KEYS[2]) end
-- A thread that was given up may bring a receipt late; without a plan none could be read any more.
local is_part = #ARGV > 3 and ARGV[4] ~= 'plan'
if is_part and redis.call('HEXISTS', KEYS[2], 'plan') == 0 then return 0 end
local fields = {}
for i = 4, #ARGV do fields[i - 3] = ARGV[i] end
call('HSET', KEYS[2], fields)
return 1
