-- Fails if the numbers of a state are none that a row of ours has, so that nothing is
-- written over one that no script of ours wrote: repair.lua can tell it then.
local function sane(n, ...)
  if n == nil then return end
  if not (n > -18014398509481984 and n < 18014398509481984) then error('no row of ours') end
  return sane(...)
end
