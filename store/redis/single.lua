-- Decides an op that stands alone: ROW is its row, STEP its twin, LIMIT the index
-- before the limit's constants. ARGV: the verb, the ID, the span of the cost, the
-- constants. It writes as save.lua does, spelt out, as it carries most traffic. The verb
-- 'look' is an operator's and writes nothing: a bucket's row would say the numbers of a limit
-- whose elders were not asked.
--
-- Answers twice the time, plus one if it was allowed, and the state, which has at
-- most seven words.
local key = KEYS[1]
local write, expiry, allowed, s1, s2, s3, s4, s5, s6, s7 = STEP(key, ROW, now, ARGV[1], ARGV[2], ARGV, LIMIT, 2)
if write and ARGV[1] ~= 'look' then
  sane(s1, s2, s3, s4, s5, s6, s7)
  local at = (expiry - expiry % 1000) / 1000 + 1 + hold
  if write == '' then
    redis.call('DEL', key)
  elseif write == true then
    redis.call('PEXPIREAT', key, at)
  else
    redis.call('SET', key, write, 'PXAT', at)
  end
end
return {now + now + allowed, s1, s2, s3, s4, s5, s6, s7}
