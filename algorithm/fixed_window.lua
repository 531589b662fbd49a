-- The twin of fixed_window.go.
--
-- The row is the window's end and the count. Where the end is a whole second and
-- the count below 2^22, both make one integer, which Redis keeps in eight bytes:
-- seconds * 2^22 + count; else it is two big-endian doubles, whose first byte is
-- no digit.
--
-- It does not say its period. One that ends before the window of now does was of a shorter
-- period, and counts on in this one; one that ends later keeps its end.
--
-- State told: the end, the count.
local function fixed_window(key, row, now, verb, id, A, l, a)
  local count, cost = A[l + 1] + 0, A[a + 1] + 0
  local stop, n, longer = 0, 0, false
  local function opened()
    local period = A[l + 3] + 0
    if A[l + 2] + 0 == 0 then -- aligned to the epoch
      local at = now - A[l + 4]
      return at - at % period + A[l + 4] + period
    elseif A[l + 2] + 0 == 1 then -- from the first request
      return now + period
    end
    -- the calendar's edges around now, oldest first
    local i = l + 6
    while i < l + 8 and now >= A[i] + 0 do i = i + 1 end
    return A[i] + 0
  end
  if row then
    local packed = tonumber(row)
    if packed then
      n = packed % 4194304
      stop = (packed - n) / 4194304 * 1000000
    else
      stop, n = struct.unpack('>dd', row)
    end
    if now >= stop then n = 0 end
    if n > 0 and A[l + 2] + 0 ~= 1 and opened() > stop then stop, longer = opened(), true end
  end

  local allowed, write = 0, false
  if cost == 0 or verb == '3' or cost <= count - n then allowed = 1 end
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    if n > 0 and (id == '0' or id + 0 == stop) then
      n, write = math.max(n - cost, 0), true
      if n == 0 then stop = 0 end
    end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    if n == 0 then
      stop = opened()
      if A[l + 2] + 0 == 2 and (now < A[l + 5] + 0 or now >= stop) then
        error('the clocks of this server and of its client are more than a calendar window apart: set them by NTP')
      end
    end
    n, write = math.min(n + cost, 9007199254740992), true
  end

  if not write and not (longer and verb ~= '1') then -- a refusal keeps it beyond its old end too
    return false, 0, allowed, stop, n
  elseif n == 0 then
    return '', 0, allowed, 0, 0
  elseif n < 4194304 and stop % 1000000 == 0 and stop >= 0 and stop < 2147483648000000 then
    return stop / 1000000 * 4194304 + n, stop, allowed, stop, n
  end
  return struct.pack('>dd', stop, n), stop, allowed, stop, n
end
