-- Decides two or three plain spends of different keys: all must allow. The text is
-- made for the twins that meet, op by op; ARGV: of each op its span, then its
-- constants.
--
-- Answers twice the time, plus one if all pass; for each op 1 or 0, whether it
-- allows, and its state.
local A, call = ARGV, redis.call
local function put(key, write, expiry)
  if write then call('SET', key, write, 'PXAT', (expiry - expiry % 1000) / 1000 + 1 + hold) end
end
