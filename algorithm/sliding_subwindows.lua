-- The twin of sliding_subwindows.go.
--
-- The row is the start of the newest sub-window with units, a big-endian double,
-- and the counters from that one back to the oldest with units, each as wide as
-- the limit says. u[2] is the newest counter.
--
-- State told: the units in all sub-windows but the oldest that counts, those in
-- the oldest, the start of the newest, how many sub-windows it is behind. When
-- refused, also of the sub-window that must leave: its end, how much more room
-- its leaving makes than is needed, its units.
local function sliding_subwindows(key, row, now, verb, id, A, l, a)
  local count, length, kept = A[l + 1] + 0, A[l + 2] + 0, A[l + 3] + 0
  local most, weighted, tick, ticks = A[l + 4] + 0, A[l + 6] + 0 == 1, A[l + 7] + 0, A[l + 8] + 0
  local cost = A[a + 1] + 0
  local format = 'd'
  local wide = A[l + 5] + 0
  if wide == 2 then format = 'H' elseif wide == 4 then format = 'I4' end

  local newest, age, u, n = now - now % length, kept, {}, 0
  local function behind()
    if now < newest + length then return 0 end -- or the clock went back
    local d = now - newest
    return (d - d % length) / length
  end
  if row then
    n = (#row - 8) / wide
    u = {struct.unpack('>d' .. string.rep(format, n), row)}
    if now >= u[1] + kept * length then
      u, n = {}, 0
    else
      newest = u[1]
      age = behind()
    end
  end
  local function units(i) return i < n and u[i + 2] or 0 end
  local oldest, rest
  local function sum()
    oldest, rest = 0, 0
    if age >= kept then return end
    oldest = units(kept - 1 - age)
    for i = 2, math.min(n, kept - 1 - age) + 1 do rest = rest + u[i] end
  end
  sum()

  local allowed = 0
  if cost == 0 or verb == '3' then
    allowed = 1
  elseif weighted then
    local room = count - rest - cost
    if room >= 0 then
      local left = newest + (age + 1) * length - now + tick - 1
      local weight = math.min((left - left % tick) / tick, ticks)
      if oldest * weight <= room * ticks then allowed = 1 end
    end
  elseif cost <= count - rest - oldest then
    allowed = 1
  end

  local write = false
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    if age < kept then
      write = true
      local back, first = cost, nil
      for i = 0, kept - age - 1 do
        local has = units(i)
        if has > 0 and (id == '0' or id + 0 == newest + (kept - i) * length) then
          u[i + 2] = has - math.min(back, has)
          back = back - math.min(back, has)
        end
        if not first and units(i) > 0 then first = i end
      end
      if not first then
        newest, age, u, n = now - now % length, kept, {}, 0
      elseif first > 0 then
        -- The newest that holds units begins the row.
        newest, n = newest - first * length, n - first
        for i = 2, n + 1 do u[i] = u[i + first] end
        age = behind()
      end
      sum()
    end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    write = true
    if age >= kept then
      u, n = {}, 0
    elseif age > 0 then
      newest, n = newest + age * length, math.min(n + age, kept)
      for i = n + 1, age + 2, -1 do u[i] = u[i - age] end
      for i = 2, math.min(age, n) + 1 do u[i] = 0 end
    end
    age = 0
    u[2] = math.min((n > 0 and u[2] or 0) + cost, most)
    if n == 0 then n = 1 end
    sum()
  end

  local stop, spare, blocker = 0, 0, 0
  if allowed == 0 and cost <= count then
    -- From the newest on, as the sum of all can be above what a double holds.
    spare = count - cost
    for i = 0, kept - 1 - age do
      stop, blocker = newest + (kept - i) * length, units(i)
      if blocker > spare then break end
      spare = spare - blocker
    end
  end
  local out = false
  if write then
    while n > 0 and u[n + 1] == 0 do n = n - 1 end
    out = ''
    if n > 0 then
      u[1] = newest
      out = struct.pack('>d' .. string.rep(format, n), unpack(u, 1, n + 1))
    end
  end
  -- More than a counter holds leaves as little as that.
  return out, newest + kept * length, allowed, math.min(rest, most), oldest, newest, age, stop, spare, blocker
end
