-- The twin of gcra.go and leaky_queue.go: see Scripted for what a twin is given
-- and gives back.
--
-- The row is the TAT in microseconds and its fraction, big-endian doubles, and by what
-- numbers they were written: the microseconds of a unit, a double, and the most that may
-- be owed, a float. Under others as many units are owed. In place of a fraction stands,
-- above 2^53, the lead of a row that owes more since a change; it stands for a microsecond.
-- Weir 0.1 wrote the first two alone, or without a fraction a plain integer: the first
-- byte of a double is no digit, so tonumber tells them apart.
--
-- State told: the TAT, its fraction.
local function gcra(key, row, now, verb, id, A, l, a)
  local full, most, q = A[l + 1] + 0, A[l + 2] + 0, A[a + 1] + 0
  local parts, fullPart, r = 1, 0, 0
  if A[l + 3] + 0 ~= 1 then parts, fullPart, r = A[l + 3] + 0, A[l + 4] + 0, A[a + 2] + 0 end
  local price, reach = A[l + 6] / parts, A[l + 7] + 0
  local tat, part, lead, write = now, 0, most, false
  if row then
    local t, p, by, within = tonumber(row), 0, price, reach
    if not t and #row > 16 then
      t, p, by, within = struct.unpack('>dddf', row)
    elseif not t then
      t, p = struct.unpack('>dd', row)
    end
    if p > 9007199254740992 and t >= now then lead = p - 9007199254740992 end
    if p >= parts then t, p = t + 1, 0 end
    if price > 0 and (by ~= price or within ~= reach) and t >= now then
      if by ~= price and t + p > now then
        if p > 0 then t = t + 1 end
        -- Rounded up, and in its last digits by the quotient: a microsecond covers both.
        t, p, write = now + math.min(math.floor((t - now) * (price / by)) + 1, 1125899906842624), 0, true
      end
      lead = most
      if t - now > most then
        lead = 2
        while lead <= t - now + most and lead < 2251799813685248 do lead = lead + lead end
      end
    end
    if t >= now + lead then
      tat, write = now + lead, true
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
    if tat >= now + lead then tat, part = now + lead, 0 end
  elseif verb == '0' and allowed == 1 then
    tat, part, write = nextTat, nextPart, true
  end

  if not write then return false, 0, allowed, tat, part end
  local expiry, t, p = tat + math.min(part, 1), tat, part
  if tat > now + most then t, p = expiry - 1, 9007199254740992 + lead end
  return struct.pack('>dddf', t, p, price, reach), expiry, allowed, tat, part
end
