-- Writes a row as its twin says, to live as long as it matters and up to a
-- millisecond longer: as long as it matters not at all it may be gone.
local function save(key, write, expiry)
  local at = (expiry - expiry % 1000) / 1000 + 1 + hold
  if write == '' then
    redis.call('DEL', key)
  elseif write == true then
    redis.call('PEXPIREAT', key, at)
  else
    redis.call('SET', key, write, 'PXAT', at)
  end
end
