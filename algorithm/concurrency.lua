-- The twin of concurrency.go.
--
-- The row is a sorted set: the name of each lease, scored by its expiry. A lease
-- of more than one unit has a second member, 'u' and its name, scored by its
-- further units, negative; '+' is scored by the sum of these. So leases of one
-- unit, which are the rule, take one member each.
--
-- State told: the units in use, the latest expiry, when refused the expiry that
-- makes room, and the units that the lease held before.
local function concurrency(key, row, now, verb, id, A, l, a)
  local call = redis.call
  local count, period, cost = A[l + 1] + 0, A[l + 2] + 0, A[a + 1] + 0
  local live = string.format('(%.0f', now)
  local extra = -(call('ZSCORE', key, '+') or 0)

  local function further(name)
    if extra == 0 then return 0 end
    return -(call('ZSCORE', key, 'u' .. name) or 0)
  end
  local function setExtra(to)
    extra = to
    if extra == 0 then call('ZREM', key, '+') else call('ZADD', key, -extra, '+') end
  end
  local function forget(name)
    local more = further(name)
    if more > 0 then
      call('ZREM', key, name, 'u' .. name)
      setExtra(extra - more)
    else
      call('ZREM', key, name)
    end
  end
  local function expired()
    local names = call('ZRANGEBYSCORE', key, '(0', now)
    return names
  end
  local function used()
    local n = call('ZCOUNT', key, live, '+inf') + extra
    if extra > 0 then
      for _, name in ipairs(expired()) do n = n - further(name) end
    end
    return math.min(n, 9007199254740992)
  end

  local expiry = call('ZSCORE', key, id)
  local held, inUse = 0, used()
  if expiry and expiry + 0 > now then held = 1 + further(id) end
  local before = held

  local allowed = 0
  if cost == 0 or verb == '3' then
    allowed = 1
  elseif id == '0' and verb ~= '1' then
    -- a lease must have a name
  elseif (held > 0 and cost <= held) or cost <= count - (inUse - held) then
    allowed = 1
  end

  local write = false
  local function drop()
    if held > 0 then forget(id) end
    if extra > 0 then
      for _, name in ipairs(expired()) do forget(name) end
    else
      call('ZREMRANGEBYSCORE', key, '(0', now)
    end
  end
  if cost == 0 then
    -- nothing to charge
  elseif verb == '3' then
    if held > 0 then
      drop()
      held, inUse, write = 0, inUse - held, true
    end
  elseif id ~= '0' and (verb == '2' or (verb == '0' and allowed == 1)) then
    local stop = now + period
    if held > 0 then stop = math.max(stop, expiry + 0) end
    drop()
    inUse, write = math.min(inUse - held + cost, 9007199254740992), true
    local name, more = id, cost - 1
    held = cost
    if call('ZCOUNT', key, '(0', '+inf') >= A[l + 3] + 0 then
      -- No room for another: the one that expires last takes the units.
      local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
      name, stop = last[1], math.max(stop, last[2] + 0)
      local had = further(name)
      more, held = had + cost, 0
      if had > 0 then setExtra(extra - had) end
    end
    call('ZADD', key, stop, name)
    if more > 0 then
      call('ZADD', key, -more, 'u' .. name)
      setExtra(extra + more)
    end
  end

  local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  local final = 0
  if last[2] and last[2] + 0 > now then final = last[2] + 0 end
  local opens = 0
  if allowed == 0 and cost <= count and (id ~= '0' or verb == '1') then
    local over = cost + inUse - held - count
    local others = call('ZRANGEBYSCORE', key, live, '+inf', 'WITHSCORES', 'LIMIT', 0, over + 1)
    for i = 1, #others, 2 do
      if not (held > 0 and others[i] == id) then
        opens = others[i + 1] + 0
        over = over - 1 - further(others[i])
        if over <= 0 then break end
      end
    end
  end
  if write and final == 0 then write = '' end
  return write, final, allowed, inUse, final, opens, before
end
