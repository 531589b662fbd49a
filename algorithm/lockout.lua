-- The twin of lockout.go.
--
-- The row is the end of the run and its count, two big-endian doubles.
--
-- State told: the end, the count.
local function lockout(key, row, now, verb, id, A, l, a)
  local count, cost = A[l + 1] + 0, A[a + 1] + 0
  local stop, n = 0, 0
  if row then
    stop, n = struct.unpack('>dd', row)
    if now >= stop then n = 0 end
  end

  local allowed, write = 0, false
  if cost == 0 or verb == '3' or cost <= count - n then allowed = 1 end
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    if n > 0 and (id == '0' or id + 0 > now) then
      n, write = math.max(n - cost, 0), true
      if n == 0 then stop = 0 end
    end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    stop = math.max(stop, now + A[l + 2])
    n, write = math.min(n + cost, 9007199254740992), true
  end

  if not write then
    return false, 0, allowed, stop, n
  elseif n == 0 then
    return '', 0, allowed, 0, 0
  end
  return struct.pack('>dd', stop, n), stop, allowed, stop, n
end
