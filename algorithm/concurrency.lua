-- The twin of concurrency.go.
--
-- The row is a sorted set: the name of each lease, scored by its expiry. A lease
-- of more than one unit has a second member, 'u' and its name, scored by its
-- further units, negative; '+' and '*' are scored by the sums of what these hold
-- below 2^32 and of how many 2^32 above, as their own sum can exceed 2^53. So
-- leases of one unit, which are the rule, take one member each.
--
-- State told: the units in use, the latest expiry, when refused the expiry that
-- makes room, and the units that the lease held before.
local function concurrency(key, row, now, verb, id, A, l, a)
  local call = redis.call
  local count, period, cost = A[l + 1] + 0, A[l + 2] + 0, A[a + 1] + 0
  local live = string.format('(%.0f', now)
  local low, high = call('ZSCORE', key, '+'), 0
  if low then low, high = -low, -call('ZSCORE', key, '*') else low = 0 end

  local function further(name)
    if low + high == 0 then return 0 end
    return -(call('ZSCORE', key, 'u' .. name) or 0)
  end
  -- Counts units, or with sign -1 no longer.
  local function sum(units, sign)
    local below = units % 4294967296
    low, high = low + sign * below, high + sign * (units - below) / 4294967296
  end
  local function saveSum()
    if low + high == 0 then
      call('ZREM', key, '+', '*')
    else
      call('ZADD', key, -low, '+', -high, '*')
    end
  end
  local function forget(name)
    local more = further(name)
    if more > 0 then
      call('ZREM', key, name, 'u' .. name)
      sum(more, -1)
      saveSum()
    else
      call('ZREM', key, name)
    end
  end
  local function expired() return call('ZRANGEBYSCORE', key, '(0', now) end
  local function used()
    local n, l, h = call('ZCOUNT', key, live, '+inf'), low, high
    if low + high > 0 then
      for _, name in ipairs(expired()) do sum(further(name), -1) end
      n = n + high * 4294967296 + low
      low, high = l, h
    end
    return math.min(n, 9007199254740992)
  end

  local expiry = call('ZSCORE', key, id)
  local held, inUse = 0, used()
  if expiry and expiry + 0 > now then held = 1 + further(id) end
  local before = held

  local allowed = 0
  if cost == 0 or verb == '3' and held > 0 then
    allowed = 1
  elseif verb == '3' then
    -- there is none to end
  elseif id == '0' and verb ~= '1' then
    -- a lease must have a name
  elseif (held > 0 and cost <= held) or cost <= count - (inUse - held) then
    allowed = 1
  end

  local write = false
  local function drop()
    if held > 0 then forget(id) end
    if low + high > 0 then
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
      more, held = math.min(had + 1 + cost, 9007199254740992) - 1, 0
      if had > 0 then sum(had, -1) end
    end
    call('ZADD', key, stop, name)
    if more > 0 then
      call('ZADD', key, -more, 'u' .. name)
      sum(more, 1)
      saveSum()
    end
  end

  local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  local final = 0
  if last[2] and last[2] + 0 > now then final = last[2] + 0 end
  local opens = 0
  if allowed == 0 and verb ~= '3' and cost <= count and (id ~= '0' or verb == '1') then
    local over = inUse - held - (count - cost)
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
