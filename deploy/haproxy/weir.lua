-- HAProxy asks Weir about each request before it forwards it. For HAProxy 2.6 and
-- later. haproxy.cfg, beside this file, says by setenv before lua-load what this
-- needs to know:
--
--   WEIR_PATH    where Weir answers, such as /auth:from=forwarded&deny=429
--   WEIR_SOCKET  the bind line of the section that leads to Weir
--   WEIR_FAIL    open or closed: what becomes of requests when Weir does not answer

local path, socket, on_failure = os.getenv("WEIR_PATH"), os.getenv("WEIR_SOCKET"), os.getenv("WEIR_FAIL")
if not path or not socket or (on_failure ~= "open" and on_failure ~= "closed") then
  error("weir.lua: set WEIR_PATH, WEIR_SOCKET and WEIR_FAIL (open or closed) by setenv before lua-load")
end

-- What of Weir's answer clients see.
local told = { "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining" }

-- Fields that are about the connection, or that clients must not set in the
-- proxy's name.
local dropped = {
  ["connection"] = true, ["keep-alive"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
  ["upgrade"] = true, ["proxy-authorization"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true,
  ["x-forwarded-for"] = true, ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true,
}

local function question(txn)
  local headers = {}
  for name, lines in pairs(txn.http:req_get_headers()) do
    if not dropped[name] then
      local kept = {}
      for i = 0, #lines do
        if lines[i] then kept[#kept + 1] = lines[i] end
      end
      headers[name] = kept
    end
  end
  headers["x-forwarded-method"] = { txn.sf:method() }
  headers["x-forwarded-uri"] = { txn.sf:pathq() }
  headers["x-forwarded-host"] = { txn.sf:req_hdr("host") }
  -- Behind another proxy: what it sent, and a comma, before this; and that proxy
  -- in --trusted-proxies too.
  headers["x-forwarded-for"] = { txn.sf:src() }
  return headers
end

local function answer(txn, status, fields, body)
  local reply = txn:reply({ status = status })
  for name, value in pairs(fields) do reply:add_header(name, value) end
  if body then reply:set_body(body) end
  txn:done(reply)
end

core.register_action("weir", { "http-req" }, function(txn)
  local res = core.httpclient():get({ url = "http://weir" .. path, dst = socket, headers = question(txn) })
  local status = res and res.status or 0
  if status == 200 then
    for _, name in ipairs(told) do
      local lines = res.headers[name]
      if lines then txn:set_var("txn.weir_" .. name:gsub("-", "_"), lines[0]) end
    end
  elseif status >= 400 and status < 500 then
    local fields = {}
    for name, lines in pairs(res.headers) do
      if name ~= "date" and name ~= "content-length" and name ~= "connection" then fields[name] = lines[0] end
    end
    answer(txn, status, fields, res.body)
  elseif on_failure == "closed" then
    answer(txn, 503, { ["retry-after"] = "1", ["cache-control"] = "no-store" })
  end
end, 0)
