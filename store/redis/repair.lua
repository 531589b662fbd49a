-- Deletes a key that no script of ours can have written: one of another type, or whose
-- value STEP, the twin, cannot read or reads as numbers that no row has. ROW is its
-- row; ARGV as for single.lua.
--
-- Answers twice the time, plus one if the key was deleted.
local key = KEYS[1]
local said = {pcall(function() return STEP(key, ROW, now, '1', ARGV[2], ARGV, LIMIT, 2) end)}
local bad = not said[1]
for i = 5, #said do
  bad = bad or not (said[i] > -18014398509481984 and said[i] < 18014398509481984)
end
if not bad then return {now + now} end
redis.call('DEL', key)
return {now + now + 1}
