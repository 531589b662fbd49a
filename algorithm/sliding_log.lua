-- The twin of sliding_log.go.
--
-- The row is a list: the time of each unit, oldest first, and at the end the
-- instant at which the newest stops to count. A list takes a tenth of the memory
-- of a sorted set, see docs/decisions/0010-log-as-a-list.md.
--
-- State told: how many units count, when the newest stops to, and, when refused,
-- when the one stops to that must.
local function sliding_log(key, row, now, verb, id, A, l, a)
  local call = redis.call
  local count, period, cost = A[l + 1] + 0, A[l + 2] + 0, A[a + 1] + 0
  local n, stamp = call('LLEN', key) - 1, 0
  if n > 0 then stamp = call('LINDEX', key, -1) + 0 else n = 0 end

  local function leaves(i) return math.min(call('LINDEX', key, i) + period, stamp) end
  -- How many units, the oldest, no longer count at an instant.
  local function over(at)
    local from, to = 0, 1
    while to <= n and leaves(to - 1) <= at do from, to = to, 2 * to end
    to = math.min(to, n)
    while from < to do
      local mid = from + to
      mid = (mid - mid % 2) / 2
      if leaves(mid) <= at then from = mid + 1 else to = mid end
    end
    return from
  end

  local allowed = 0
  if cost == 0 or verb == '3' then
    allowed = 1
  elseif cost <= count then
    local i = n - 1 - (count - cost)
    if i < 0 or leaves(i) <= now then allowed = 1 end
  end

  local gone, write = over(now), false
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    if n > 0 then
      local from, to = gone, n
      if id ~= '0' then from, to = math.max(from, over(id - 1)), over(id + 0) end
      local k = math.min(cost, math.max(to - from, 0))
      if k == n then
        call('DEL', key)
        n, gone, write = 0, 0, ''
      else
        if k > 0 then
          local later = {}
          if to < n then later = call('LRANGE', key, to, n - 1) end
          if to > k then call('LTRIM', key, 0, to - k - 1) else call('DEL', key) end
          for i = 1, #later, 1000 do
            call('RPUSH', key, unpack(later, i, math.min(i + 999, #later)))
          end
          call('RPUSH', key, stamp)
          n = n - k
        end
        stamp = math.min(call('LINDEX', key, n - 1) + period, stamp)
        call('LSET', key, -1, stamp)
        write, gone = true, over(now)
      end
    end
  elseif verb == '2' or (verb == '0' and allowed == 1) then
    write = true
    local t, add = now, math.min(cost, count)
    if n > gone then t = math.max(t, call('LINDEX', key, n - 1) + 0) end
    local drop = gone + math.max(n - gone + add - count, 0)
    if n > 0 then
      call('RPOP', key)
      if drop >= n then
        call('DEL', key)
      elseif drop > 0 then
        call('LTRIM', key, drop, -1)
      end
    end
    stamp = t + period
    n, gone = n - drop + add, 0
    if add == 1 then
      call('RPUSH', key, t, stamp)
    else
      local times = {}
      for i = 1, math.min(add, 1000) do times[i] = t end
      for i = 0, add - 1, 1000 do call('RPUSH', key, unpack(times, 1, math.min(add - i, 1000))) end
      call('RPUSH', key, stamp)
    end
  end

  local last, blocker = 0, 0
  if n > gone then last = leaves(n - 1) end
  if allowed == 0 and cost <= count then blocker = leaves(n - 1 - (count - cost)) end
  return write, stamp, allowed, n - gone, last, blocker
end
