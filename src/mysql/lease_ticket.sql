-- The waiter's or holder's own ticket: others sleep on it, and see that we live. 0: an
-- old connection of ours still has it.
, @ticket = GET_LOCK({ticket}, {patience})
