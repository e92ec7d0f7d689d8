-- Adds an entry unless this ID was added before, in one step: nothing else runs in between.
-- KEYS: the stream, the ID's own key. ARGV: digest of the content, milliseconds the ID is kept for,
-- most entries or 0, milliseconds an entry is kept for or 0, then names and values.
-- Returns the entry's ID, and whether it is new (1), was there before (0), or was there with other content (-1).
local known = redis.call('GET', KEYS[2])
if known then
  local id, digest = string.match(known, '^(%S+) (%S+)$')
  if digest == ARGV[1] then
    -- A write of this connection, so that its WAIT waits for the replicas to have the entry, too.
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    return {id, 0}
  end
  return {id or known, -1}
end
local add = {'XADD', KEYS[1]}
if ARGV[3] ~= '0' then
  add[#add + 1] = 'MAXLEN'
  add[#add + 1] = '~'
  add[#add + 1] = ARGV[3]
elseif ARGV[4] ~= '0' then
  local now = redis.call('TIME')
  add[#add + 1] = 'MINID'
  add[#add + 1] = '~'
  add[#add + 1] = string.format('%d', now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[4])
end
add[#add + 1] = '*'
for index = 5, #ARGV do
  add[#add + 1] = ARGV[index]
end
local id = redis.call(unpack(add))
redis.call('SET', KEYS[2], id .. ' ' .. ARGV[1], 'PX', ARGV[2])
return {id, 1}
