-- ARGV: channel, owner, kind. Returns the mode in which the owner holds the lock, or ''.
return (held()) or ''
