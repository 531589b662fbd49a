-- Writes a row as its twin says, to live as long as it matters and up to a
-- millisecond longer: as long as it matters not at all it may be gone. Without an expiry
-- it keeps that which it has.
local function save(key, write, expiry)
  if not expiry then return redis.call('SET', key, write, 'KEEPTTL') end
  local at = (expiry - expiry % 1000) / 1000 + 1 + hold
  if write == '' then
    redis.call('DEL', key)
  elseif write == true then
    redis.call('PEXPIREAT', key, at)
  else
    redis.call('SET', key, write, 'PXAT', at)
  end
end
