-- The waiter's or holder's own ticket: others sleep on it, and see that we live. 0: an
-- old connection of ours still has it. Who is silent for so long is gone, and its ticket
-- with it: no ghost stays in line longer than one TTL.
-- An earlier try may have taken it: it would have to be let go as often as it was taken.
, @ticket = IF(@cluster, NULL, IF(IS_USED_LOCK({ticket}) = CONNECTION_ID(), 1,
    GET_LOCK({ticket}, {patience}))), SESSION wait_timeout = {idle}
