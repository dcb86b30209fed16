-- ARGV: channel, token. Returns 1 when it holds the lock now, else 0.
return holds(token) and 1 or 0
