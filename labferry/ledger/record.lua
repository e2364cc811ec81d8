-- How do scripts read and redraw a record? layout.py draws it; places are counted from 1.
-- Takes no KEYS and no ARGV of its own and returns nothing; the verb's own file goes on below.
local stamp = struct.pack('<I5', now - 1704067200000) -- since 2024

-- Return the records of paths, by path.
local function find_records(files, paths)
  local found, i = {}, 0
  in_slices(paths, function(...)
    for _, record in ipairs(redis.call('HMGET', files, ...)) do
      i = i + 1
      found[paths[i]] = record or nil
    end
  end)
  return found
end

-- Tell whether there is a record and its state is one of the letters.
local function is(record, letters)
  return record ~= nil and letters:find(record:sub(1, 1), 1, true) ~= nil
end

local function token_of(record) return (struct.unpack('<I4', record, 7)) end
local function size_of(record) return (struct.unpack('<I8', record, 15)) end

-- Return the record in its new state and count it; `new` has what else changes. A date becomes the
-- record's last: what stood behind it is cut. `stamp` is the date, '' for none.
local function redraw(record, target, new)
  local size = size_of(record)
  count(record:sub(1, 1), -1, -size)
  local dates = record:sub(47)
  if new.place then dates = record:sub(47, new.place - 1) .. (new.stamp or stamp) end
  record = target .. (new.counters or record:sub(2, 5)) .. (new.lane or record:sub(6, 6))
    .. (new.lease or record:sub(7, 14)) .. (new.fingerprint or record:sub(15, 46)) .. dates
    .. (new.evidence or '')
  count(target, 1, new.fingerprint and size_of(record) or size)
  return record
end
