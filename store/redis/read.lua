-- Reads a document: KEYS[1], the version that is known, and the most bytes. It
-- returns the time, the version (0: there is none, -1: it is no document), and the
-- data if the version is another one than the known.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local head = redis.call('GETRANGE', KEYS[1], 0, 15)
if head == '' then
	return {now, 0}
end
local version = -1
if string.match(head, '^%d+$') and #head == 16 then
	version = tonumber(head)
end
if version < 1 or version >= 9007199254740000 or redis.call('STRLEN', KEYS[1]) > 16 + ARGV[2] then
	return {now, -1}
end
if version == tonumber(ARGV[1]) then
	return {now, version}
end
return {now, version, redis.call('GETRANGE', KEYS[1], 16, -1)}
