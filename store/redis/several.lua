-- Decides several ops, as weir.Settle does: look at all, settle, charge.
--
-- KEYS: one for each op. ARGV: how many ops there are, 1 if no other op refuses;
-- for each op nine words; then constants and spans. The words of an op are
--
--   twin     index in twins
--   need     m: must allow; o: or the next op must, its pool; -: need not
--   charge   n: never; a: always; p: if all pass; s: if all pass and the op
--            allows; b: if not all pass and the op allows
--   verb     that charges it
--   id
--   consts   index before the constants
--   look     index before the span of what must be there
--   cost     index before the span of what is charged
--   mode     q: looking is charging, write once all pass; r: an earlier op has
--            the same key, read again before charging; -: neither
--
-- FETCH reads a row, CHARGED follows a charge, and OVER the last one: see changed.lua for
-- ELDERS.
--
-- Answers twice the time, plus one if all pass; for each op its flags, how many
-- words its state has, the state; where it was refused and charged all the same,
-- the state before too. Flags: 1 allowed when looked at, 2 charged, 4 allowed
-- when charged, 8 two states follow.
local peek = '1'
local A, n, pass, ops, writes, latest = ARGV, ARGV[1] + 0, ARGV[2] == '1', {}, {}, {}

ELDERS
local function read(o)
  if collection[o.twin] then return nil end
  return FETCH
end

for i = 1, n do
  local p = 9 * i - 7
  local o = {key = KEYS[i], twin = A[p + 1] + 0, need = A[p + 2], charge = A[p + 3], verb = A[p + 4], id = A[p + 5],
    consts = A[p + 6] + 0, look = A[p + 7] + 0, cost = A[p + 8] + 0, mode = A[p + 9], number = i}
  local verb = peek
  if o.mode == 'q' then verb = '0' end
  o.row = read(o)
  o.said = {twins[o.twin](o.key, o.row, now, verb, o.id, A, o.consts, o.look)}
  o.allowed = o.said[3] == 1
  if o.said[1] and not (o.mode == 'q' and o.allowed) then
    sane(unpack(o.said, 4))
    save(o.key, o.said[1], o.said[2]) -- the repair of a row that lay too far ahead
  end
  ops[i] = o
end

for i = 1, n do
  local o = ops[i]
  if not o.allowed then
    if o.need == 'm' then pass = false end
    if o.need == 'o' and not ops[i + 1].allowed then pass = false end
  end
end

-- What is written is written when all is decided: an op that fails leaves none of the
-- others charged. Collections are written by their twins, and so come last.
local function keep(o)
  local write = o.said[1]
  if not write then return end
  sane(unpack(o.said, 4))
  if collection[o.twin] then
    save(o.key, write, o.said[2])
    return
  end
  writes[#writes + 1] = {o.key, write, o.said[2]}
  if write ~= true then latest[o.key] = write end
end

local function readAgain(o)
  local row = latest[o.key]
  if row == '' then return false end
  return row or read(o)
end

local function charge(o)
  local c = o.charge
  o.flags = 0
  if o.allowed then o.flags = 1 end
  if c == 'a' or (c == 'p' and pass) or (c == 's' and pass and o.allowed) or (c == 'b' and not pass and o.allowed) then
    o.flags = o.flags + 2
    if o.mode ~= 'q' then
      if o.mode == 'r' then o.row = readAgain(o) end
      o.before = o.said
      o.said = {twins[o.twin](o.key, o.row, now, o.verb, o.id, A, o.consts, o.cost)}
      if o.said[3] == 1 then o.flags = o.flags + 4 end
      if o.allowed or o.said[3] ~= 1 then o.before = nil else o.flags = o.flags + 8 end
    else
      o.flags = o.flags + 4
    end
    keep(o)
    CHARGED
  elseif o.mode == 'q' and o.allowed then
    o.said = {twins[o.twin](o.key, o.row, now, peek, o.id, A, o.consts, o.look)}
    keep(o)
  end
end

for i = 1, n do
  if not collection[ops[i].twin] then charge(ops[i]) end
end
for i = 1, #writes do save(writes[i][1], writes[i][2], writes[i][3]) end
for i = 1, n do
  if collection[ops[i].twin] then charge(ops[i]) end
end

OVER
local out = {now + now}
if pass then out[1] = out[1] + 1 end
for i = 1, n do
  local o = ops[i]
  out[#out + 1], out[#out + 2] = o.flags, #o.said - 3
  for j = 4, #o.said do out[#out + 1] = o.said[j] end
  if o.before then
    for j = 4, #o.before do out[#out + 1] = o.before[j] end
  end
end
return out
