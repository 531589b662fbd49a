-- The twin of sliding_counter.go.
--
-- The row is the start of a window, its count, and that of the window before:
-- a double and two integers of 32 bits, or three doubles where they do not fit.
--
-- State told: the three of them as of now.
local function sliding_counter(key, row, now, verb, id, A, l, a)
  local count, period, tick, ticks = A[l + 1] + 0, A[l + 2] + 0, A[l + 3] + 0, A[l + 4] + 0
  local cost = A[a + 1] + 0
  local start, cur, prev = now - now % period, 0, 0
  if row then
    local s, c, p
    if #row == 16 then
      s, c, p = struct.unpack('>dI4I4', row)
    else
      s, c, p = struct.unpack('>ddd', row)
    end
    if s >= start then -- or the clock went back: stay in the window it was in
      start, cur, prev = s, c, p
    elseif s == start - period then
      prev = c
    end
  end

  local allowed = 0
  if cost == 0 or verb == '3' then
    allowed = 1
  else
    local room = count - cur - cost
    if room >= 0 then
      -- In ticks, a power of two microseconds, rounded up.
      local left = start + period - now + tick - 1
      local weight = math.min((left - left % tick) / tick, ticks)
      if prev * weight <= room * ticks then allowed = 1 end
    end
  end

  local write = false
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    write = true
    local back = cost
    if id == '0' or id + 0 == start + 2 * period then
      local given = math.min(back, cur)
      cur, back = cur - given, back - given
    end
    if id == '0' or id + 0 == start + period then prev = prev - math.min(back, prev) end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    -- More was spent if the count was larger.
    cur, write = math.max(cur, math.min(cur + cost, A[l + 5] + 0)), true
  end

  if not write then return false, 0, allowed, start, cur, prev end
  local s, c, p = start, cur, prev
  if c == 0 then s, c, p = start - period, prev, 0 end
  if c == 0 then return '', 0, allowed, start, 0, 0 end
  local format = '>dI4I4'
  if c >= 4294967296 or p >= 4294967296 then format = '>ddd' end
  return struct.pack(format, s, c, p), s + 2 * period, allowed, start, cur, prev
end
