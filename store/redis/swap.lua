-- Replaces a document: KEYS[1], the version that it must be of, a version that the
-- new one must be above, and the data. It returns the time and the version, and one
-- more value if it was replaced.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local head = redis.call('GETRANGE', KEYS[1], 0, 15)
local version = 0
if head ~= '' then
	version = -1
	if string.match(head, '^%d+$') and #head == 16 then
		version = tonumber(head)
	end
	if version < 1 or version >= 9007199254740000 then
		return {now, -1}
	end
end
if version ~= tonumber(ARGV[1]) then
	return {now, version}
end
local new = math.max(version + 1, tonumber(ARGV[2]) + 1, now)
redis.call('SET', KEYS[1], string.format('%016.0f', new) .. ARGV[3])
return {now, new, 1}
