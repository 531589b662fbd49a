-- The twin of sliding_window.go.
--
-- The row is when the last unit counts as spent, the size of a batch and the units of
-- the open one, as doubles; 2^52 more than the size is of coarse sub-windows. Then a byte for each sub-window, the number of its
-- batches, from the newest to the oldest that holds any.
--
-- State told: the units that count, when the last of them counts as spent, and, when
-- refused, the instant at which there is room.
local function sliding_window(key, row, now, verb, id, A, l, a)
  local count, period, length, kept = A[l + 1] + 0, A[l + 2] + 0, A[l + 3] + 0, A[l + 4] + 0
  local size, most, grain, cost = A[l + 5] + 0, A[l + 6] + 0, A[l + 7] + 0, A[a + 1] + 0
  -- b[1] is the newest of n sub-windows, sum what all of them hold.
  local last, newest, open, b, n, sum = 0, 0, 0, {}, 0, 0

  local function index(at) return (at - at % length) / length end
  -- Drops the oldest batches above so many.
  local function forget(above)
    while sum > above do
      local over = sum - above
      if b[n] > over then
        b[n], sum = b[n] - over, above
      else
        sum, n = sum - b[n], n - 1
      end
    end
    while n > 0 and b[n] == 0 do n = n - 1 end
  end
  -- Places whole batches of units and of the open one in the newest sub-window.
  local function add(units)
    local rest = units % size
    local more = (units - rest) / size
    open = open + rest
    if open >= size then open, more = open - size, more + 1 end
    if more > 0 then
      more = math.min(more, most)
      forget(most - more)
      if n == 0 then b[1], n = 0, 1 end
      b[1], sum = b[1] + more, sum + more
    end
  end
  local function advance(by)
    if n > 0 then
      for i = n, 1, -1 do b[i + by] = b[i] end
      for i = 1, by do b[i] = 0 end
      n = n + by
    end
  end

  -- Makes batches of size of those of another, in sub-windows of a length, whose units count
  -- as spent at the end of theirs: what one has above whole batches goes on to the next newer
  -- one.
  local function regroup(other, long)
    local old, unit, many, at, from = b, open, n, newest, (last - last % long) / long
    b, n, open, sum = {}, 0, 0, 0
    for i = many, 1, -1 do
      local to = index(math.min((from - i + 2) * long - 1, last))
      if to > at or i == many then advance(to - at) end
      at = to
      if i == 1 then add(unit) end
      add(old[i] * other)
    end
    if many == 0 then add(unit) end
  end

  if row then
    local other
    last, other, open = struct.unpack('>ddd', row)
    local long = A[l + 9] + 0
    if other >= 4503599627370496 then other, long = other - 4503599627370496, A[l + 8] + 0 end
    if now >= last + period then
      last, open = 0, 0
    else
      newest = index(last)
      b = {string.byte(row, 25, #row)}
      n = #b
      local held = 0
      for i = 1, n do held = held + b[i] end
      -- Where a lowered count has no room for all batches they stay as they are.
      if other >= size and held * other + open > most * size then size, most = other, 64 end
      if other == size and long == length then
        sum = held
      else
        regroup(other, long)
      end
      -- Should the clock have gone back, nothing leaves.
      local stay = math.max(kept - (index(now) - newest), 1)
      for i = stay + 1, n do sum = sum - b[i] end
      n = math.min(n, stay)
      while n > 0 and b[n] == 0 do n = n - 1 end
    end
  end

  local used = sum * size + open
  local allowed = 0
  if cost == 0 or verb == '3' or cost <= count - used then allowed = 1 end

  local write = false
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    write = used > 0
    local back = cost
    if not write then
      -- nothing to give back
    elseif id == '0' then
      local given = math.min(back, open)
      open, back = open - given, back - given
      local i = 1
      while back > 0 and i <= n do
        local units = math.min(back, b[i] * size)
        local whole = (units - units % size) / size
        b[i], sum, back = b[i] - whole, sum - whole, back - units
        if units % size > 0 then
          b[i], sum, open = b[i] - 1, sum - 1, size - units % size
        end
        i = i + 1
      end
    elseif id + 0 > now and id + 0 <= last + period then
      local first = newest - index(math.max(id - period, 0)) + 1
      for i = math.min(first, n), 1, -1 do
        local units = math.min(back, b[i] * size)
        local rest = units % size
        local whole = (units - rest) / size
        b[i], sum, back = b[i] - whole, sum - whole, back - units
        if rest > 0 then
          b[i], sum, back = b[i] - 1, sum - 1, 0
          add(size - rest)
        end
      end
      open = math.max(open - back, 0)
    end
    if write then
      while n > 0 and b[n] == 0 do n = n - 1 end
      if open == 0 and n > 0 and b[1] == 0 then
        -- The newest sub-window that holds batches is the newest.
        local i = 1
        while b[i] == 0 do i = i + 1 end
        for j = i, n do b[j - i + 1] = b[j] end
        n, newest = n - i + 1, newest - i + 1
        last = math.min(last, (newest + 1) * length - 1)
      end
      if open == 0 and n == 0 or last + period <= now then last, open, n, sum = 0, 0, 0, 0 end
      used = sum * size + open
    end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    write = true
    if allowed == 0 and most == 64 then
      -- More than the limit lets pass: larger batches, so that none is forgotten.
      local larger, i, sizes = size, 0, 28
      if count > 16384 then sizes = 184 end
      while used + cost > 64 * larger and i < sizes do
        local next = i + 1
        if i > 7 then next = (5 + i % 4) * 2 ^ (math.floor(i / 4) - 1) end
        larger, i = math.max(larger, next), i + 1
      end
      if larger > size then
        local other = size
        size = larger
        regroup(other, length)
      end
    end
    local at = now
    if grain > 0 then at = (index(now) + grain) * length - 1 end
    if at > last then
      local by = index(at) - newest
      if by > 0 then
        newest = newest + by
        advance(by)
      end
      last = at
    end
    add(cost)
    used = sum * size + open
  end

  local opens = 0
  if allowed == 0 and cost <= count then
    opens = last + period
    local room = count - cost - open
    if room >= 0 then
      -- The sub-window of the youngest batch that must leave.
      local stay, i = (room - room % size) / size, 0
      repeat
        i = i + 1
        stay = stay - b[i]
      until stay < 0
      opens = math.min(opens, (newest - i + 1 + kept) * length)
    end
  end
  local out = false
  if write then
    out = ''
    if used > 0 then
      local told = size
      if length ~= A[l + 9] + 0 then told = size + 4503599627370496 end
      out = struct.pack('>ddd', last, told, open) .. string.char(unpack(b, 1, n))
    end
  end
  return out, last + period, allowed, used, last, opens
end
