-- For ops whose limits were changed: an elder is the row that the key may have under
-- another version of the limit. A row that is not there is made of what its elders say was
-- spent, by that which tells most. What is spent is charged to the elders too, as long as
-- they live, so that a limit that is changed back finds it.
--
-- Their keys follow those of the ops. Each has four words after those of the ops: of which
-- op it is, its twin, the index before its constants, and the op's cost in units.
local elders, scratch = {}, #A
for i = 1, n do elders[i] = {} end
for j = n + 1, #KEYS do
  local p = 2 + 9 * n + 4 * (j - n - 1)
  local mine = elders[A[p + 1] + 0]
  mine[#mine + 1] = {key = KEYS[j], twin = twins[A[p + 2] + 0], name = names[A[p + 2] + 0], consts = A[p + 3] + 0, cost = A[p + 4] + 0}
end

-- Returns what lies in the row of an elder; nil if there is none.
local function elderOf(e)
  local row = latest[e.key]
  if row == nil then row = redis.pcall('GET', e.key) end
  if row and type(row) ~= 'table' then return row end -- else it is of another type
end

-- Reports whether a row is a bucket's by the numbers of o: it owes no more than a full one
-- of them, if it was carried.
local function isOwn(o, row)
  if names[o.twin] ~= 'gcra' or #row < 28 then return true end
  local _, _, price, reach = struct.unpack('>dddf', row)
  return price == A[o.consts + 6] / A[o.consts + 3] and reach == A[o.consts + 7] + 0
end

local function fetch(o)
  local row, twin, name, most, till = redis.call('GET', o.key), twins[o.twin], names[o.twin], 0, 0
  if row and isOwn(o, row) then return row end
  local function counts(row)
    local _, sum = eventsOf(twin, name, o.key, row, now, A, o.consts, scratch)
    return sum
  end
  if row then most = counts(row) end
  for _, e in ipairs(elders[o.number]) do
    local was = elderOf(e)
    if was then
      local events, sum = eventsOf(e.twin, e.name, e.key, was, now, A, e.consts, scratch)
      local made, expiry = rowOf(events, sum, twin, name, o.key, now, A, o.consts, scratch)
      if made and counts(made) > most then row, till, most = made, expiry, counts(made) end
    end
  end
  -- Kept though it be refused: what a bucket owes flows back by the new numbers from here.
  if till > 0 and o.verb ~= peek then save(o.key, row, till) end
  return row
end

-- Rows that count nothing, where a key without one would be asked what its elders say.
local nothing = {fixed_window = '0', sliding_counter = string.rep('\0', 16), sliding_window = string.rep('\0', 24),
  sliding_subwindows = string.rep('\0', 8)}

-- Those whose room depends on what they count.
local roomBySum = {sliding_window = true, sliding_counter = true}

local function chargeElders(o)
  if o.said[1] == '' and #elders[o.number] > 0 then
    local write = writes[#writes]
    write[2], write[3] = nothing[names[o.twin]], now
    latest[o.key] = write[2]
  end
  if o.verb ~= '2' and (o.verb ~= '0' or o.said[3] ~= 1) then return end
  for _, e in ipairs(elders[o.number]) do
    local row = elderOf(e)
    if row then
      local sum = 0
      if roomBySum[e.name] then sum = select(2, eventsOf(e.twin, e.name, e.key, row, now, A, e.consts, scratch)) end
      local l = roomy(A, e.consts, scratch, e.name, row, sum + e.cost)
      span(A, l, scratch, e.name, e.cost)
      local fine, write = pcall(e.twin, e.key, row, now, '2', '0', A, l, scratch)
      if fine and write then -- else it is none of ours
        writes[#writes + 1] = {e.key, write, false}
        latest[e.key] = write
      end
    end
  end
end

-- A row lasts as long as its elders do: that it counts nothing any more is known as well.
local function outlast(o)
  local most = 0
  for _, e in ipairs(elders[o.number]) do most = math.max(most, redis.call('PTTL', e.key)) end
  if o.verb ~= peek and most > redis.call('PTTL', o.key) then redis.call('PEXPIRE', o.key, most) end
end
