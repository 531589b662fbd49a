-- Adds versions of limits to the list of them, KEYS[1], a sorted set by when they were
-- added: ARGV[1] is from when on they are wanted, ARGV[2] how many are kept, and the
-- others are to be added. It returns the time, how many are in it, and those wanted.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], 'NX', now, ARGV[i]) end
if #ARGV > 2 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[2]) end
return {now, redis.call('ZCARD', KEYS[1]), redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf')}
