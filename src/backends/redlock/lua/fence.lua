-- ARGV: channel, token, number. Makes the fence of this node and of the token's hold at least
-- number. Returns 1, or 0 when the token does not hold the lock here.
look()
if owner ~= token then return 0 end
local number = raise(ARGV[3], 0)
local _, since, text = note_of(token)
if since then set_note(token, number, since, text) end
return 1
