-- Decides rows: requests of one to three plain spends of different keys, all of
-- which must allow. The text is made for the twins that meet, op by op, and for any
-- number of rows under the same limits: each is decided as if it came alone, one
-- after the other.
--
-- KEYS: of each row one for each op. ARGV, for all rows: of each op its span, then
-- its constants.
--
-- Answers twice the time; for each row a number of bits, the lowest whether all
-- pass, and if it has several ops the further ones which of them allow; their
-- states. If a row failed, the error stands first, and no more of it counts.
local A, call, out, n = {}, redis.call, {now + now}, 1
-- Read once: a number of so many digits is long to read.
for i = 1, #ARGV do A[i] = ARGV[i] + 0 end
local function put(key, write, expiry)
  if write then call('SET', key, write, 'PXAT', (expiry - expiry % 1000) / 1000 + 1 + hold) end
end
local function row(i)
  ROW
end
for i = 1, #KEYS, OPS do
  local fine, why = pcall(row, i)
  if not fine then
    if type(why) == 'table' then why = why.err end
    out[n + 1] = tostring(why)
    for j = n + 2, n + WORDS do out[j] = 0 end
  end
  n = n + WORDS
end
return out
