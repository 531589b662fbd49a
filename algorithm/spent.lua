-- The twins of Spent and carry: what rows say was spent, and rows that say so.
--
-- spent.NAME(row, now, A, l, s, f) calls f(at, units) with what a row counts at now, the
-- oldest first: units, and when they were spent at the latest. s is the state that the twin
-- NAME told of it.
local spent = {}

function spent.fixed_window(row, now, A, l, s, f)
  if s[2] > 0 then f(now, s[2]) end
end

function spent.sliding_counter(row, now, A, l, s, f)
  if s[3] > 0 then f(s[1] - 1, s[3]) end
  if s[2] > 0 then f(math.max(now, s[1]), s[2]) end
end

function spent.gcra(row, now, A, l, s, f)
  local ahead, time = s[1] - now + math.min(s[2], 1), A[l + 6] + 0
  if ahead <= 0 then return end
  local n = ahead * A[l + 3] + time - 1
  if n > 9007199254740992 then f(now, math.min(math.floor(n / time) + 1, 9007199254740992)) else f(now, (n - n % time) / time) end
end

function spent.sliding_window(row, now, A, l, s, f)
  local length, kept = A[l + 3] + 0, A[l + 4] + 0
  if s[1] == 0 then return end
  local function index(at) return (at - at % length) / length end
  local last, size, open = struct.unpack('>ddd', row)
  local long, b = A[l + 9] + 0, {string.byte(row, 25, #row)}
  if size >= 4503599627370496 then size, long = size - 4503599627370496, A[l + 8] + 0 end
  for i = #b, 2, -1 do
    local at = math.min(((last - last % long) / long - i + 2) * long - 1, last)
    if b[i] > 0 and index(now) - index(at) < kept then f(at, b[i] * size) end
  end
  if #b > 0 then open = open + b[1] * size end
  if open > 0 then f(last, open) end
end

function spent.sliding_subwindows(row, now, A, l, s, f)
  local length, wide = A[l + 2] + 0, A[l + 5] + 0
  if s[1] + s[2] == 0 then return end
  local n, format = (#row - 8) / wide, 'd'
  if wide == 2 then format = 'H' elseif wide == 4 then format = 'I4' end
  local u = {struct.unpack('>d' .. string.rep(format, n), row)}
  for i = math.min(n, A[l + 3] - s[4]), 1, -1 do
    if u[i + 1] > 0 then f(math.min(u[1] + (2 - i) * length - 1, math.max(now, u[1])), u[i + 1]) end
  end
end

-- Writes the span of so many units under a limit after A[a].
local function span(A, l, a, twin, units)
  A[a + 1], A[a + 2] = units, 0
  if twin ~= 'gcra' then return end
  local n, parts = math.ceil(units * A[l + 6]), A[l + 3] + 0
  if n > 9007199254740992 then
    A[a + 1] = math.floor(units * (A[l + 6] / parts)) + 1
  else
    A[a + 1], A[a + 2] = (n - n % parts) / parts, n % parts
  end
end

-- Returns the row of a bucket that owes what events, pairs of at and units, say: a full one
-- at most, as it counts no period that would end.
local function owing(events, now, A, l, a)
  local full, parts, fullPart = A[l + 1] + 0, A[l + 3] + 0, A[l + 4] + 0
  local ahead, part, at = 0, 0, now
  for i = 1, #events, 2 do
    local t = math.min(events[i], now)
    if i > 1 then ahead = ahead - (t - at) end
    if ahead < 0 then ahead, part = 0, 0 end
    at = t
    span(A, l, a, 'gcra', events[i + 1])
    ahead, part = ahead + A[a + 1], part + A[a + 2]
    if part >= parts then ahead, part = ahead + 1, part - parts end
    if ahead > full or (ahead == full and part > fullPart) then ahead, part = full, fullPart end
  end
  ahead = ahead - (now - at)
  if ahead < 0 or ahead + part == 0 then return nil end
  return struct.pack('>dddf', now + ahead, part, A[l + 6] / parts, A[l + 7] + 0), now + ahead + math.min(part, 1)
end

-- Returns what a row counts at now as events, and how many units; none of a row that its
-- twin cannot read.
local function eventsOf(twin, name, key, row, now, A, l, a)
  local events, sum = {}, 0
  span(A, l, a, name, 0)
  local fine = pcall(function()
    spent[name](row, now, A, l, {select(4, twin(key, row, now, '1', '0', A, l, a))}, function(at, units)
      events[#events + 1], events[#events + 2], sum = at, units, sum + units
    end)
  end)
  if not fine or not (sum < 18014398509481984) then return {}, 0 end
  return events, sum
end

-- Returns the index before constants by which a row has room for so many units, for when the
-- count is raised: of a sliding window in larger batches, of a counter in wider numbers; of a
-- bucket by the numbers that its row says, as by others it would seem to owe no more than is
-- known.
local function roomy(A, l, a, name, row, sum)
  local to = a + 2
  if name == 'gcra' and row and #row >= 28 then
    local _, _, price, reach = struct.unpack('>dddf', row)
    if not (price > 0 and reach > 0 and price + reach < 9007199254740992) then return l end -- none of ours
    for i, c in ipairs({reach, reach, 1, 0, 0, price, reach}) do A[to + i] = c end
    return to
  end
  local isWindow = name == 'sliding_window' and sum > A[l + 5] * A[l + 6]
  if not isWindow and (name ~= 'sliding_counter' or sum <= A[l + 5] + 0) then return l end
  for i = 1, 9 do A[to + i] = A[l + i] end
  if isWindow then
    A[to + 5], A[to + 6] = math.floor(sum / 64) + 1, 64
  else
    A[to + 5] = 9007199254740992
  end
  return to
end

-- Returns a row under a limit that counts what events, sum units in all, say, and its
-- expiry; nil if that is nothing.
local function rowOf(events, sum, twin, name, key, now, A, l, a)
  if name == 'gcra' then return owing(events, now, A, l, a) end
  l = roomy(A, l, a, name, nil, sum)
  local row, expiry
  for i = 1, #events, 2 do
    span(A, l, a, name, events[i + 1])
    -- It fails of what is older than a window of the calendar.
    local fine, write, till = pcall(twin, key, row, events[i], '2', '0', A, l, a)
    if fine and write then row, expiry = write, till end
  end
  return row, expiry
end
