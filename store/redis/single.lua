-- Decides an op that stands alone. ARGV: the verb, the ID, the span of the cost,
-- the constants of the limit.
--
-- Answers twice the time, plus one if it was allowed, and the state.
local function finish(write, expiry, allowed, ...)
  if write then save(KEYS[1], write, expiry) end
  return {now + now + allowed, ...}
end
