-- The twin of gcra.go and leaky_queue.go: see Scripted for what a twin is given
-- and gives back.
--
-- The row is the TAT in microseconds as a plain integer, which Redis keeps in
-- eight bytes; with a fraction, two big-endian doubles. The first byte of such a
-- double is no digit, so tonumber tells the two apart.
--
-- State told: the TAT, its fraction.
local function gcra(key, row, now, verb, id, A, l, a)
  local full, most, q = A[l + 1] + 0, A[l + 2], A[a + 1] + 0
  local parts, fullPart, r = 1, 0, 0
  if A[l + 3] + 0 ~= 1 then parts, fullPart, r = A[l + 3] + 0, A[l + 4] + 0, A[a + 2] + 0 end
  local tat, part, write = now, 0, false
  if row then
    local t, p = tonumber(row), 0
    if not t then t, p = struct.unpack('>dd', row) end
    if p >= parts then t, p = t + 1, 0 end
    if t >= now + most then
      tat, write = now + most, true
    elseif t >= now then
      tat, part = t, p
    end
  end

  if verb == '3' and A[l + 5] + 0 == 1 and id ~= '0' then
    -- Only the last in a queue can leave it.
    local tail = tat
    if part > 0 then tail = tat + 1 end
    if id + 0 ~= tail then q, r = 0, 0 end
  end

  if verb == '3' and id ~= '0' then
    -- What has flowed in since the charge would be there twice. A receipt is when
    -- it began to, negated; else it is when the bucket was to be whole.
    local age = id + 0
    if age < 0 then
      age = now + age
      if age > q then
        q, r = 0, 0
      elseif age > 0 then
        q = q - age
      end
    else
      local left = math.max(age - now, 0)
      if left <= q then q, r = left, 0 end
    end
  end

  local nextTat, nextPart = tat + q, part
  if part >= parts - r then
    nextTat, nextPart = nextTat + 1, part - (parts - r)
  else
    nextPart = part + r
  end
  local ahead = nextTat - now
  local allowed = 0
  if ahead < full or (ahead == full and nextPart <= fullPart) then allowed = 1 end

  if q == 0 and r == 0 then -- a cost of zero
    allowed = 1
  elseif verb == '3' then
    allowed, write = 1, true
    tat, part = tat - q, part - r
    if part < 0 then tat, part = tat - 1, part + parts end
    if tat < now then tat, part = now, 0 end
  elseif verb == '2' then
    tat, part, write = nextTat, nextPart, true
    if tat >= now + most then tat, part = now + most, 0 end
  elseif verb == '0' and allowed == 1 then
    tat, part, write = nextTat, nextPart, true
  end

  if not write then
    return false, 0, allowed, tat, part
  elseif part == 0 then
    return tat, tat, allowed, tat, 0
  end
  return struct.pack('>dd', tat, part), tat + 1, allowed, tat, part
end
