-- The waiter's or holder's own ticket: others sleep on it, and see that we live. 0: an
-- old connection of ours still has it. Who is silent for so long is gone, and its ticket
-- with it: no ghost stays in line longer than one TTL.
, @ticket = IF(@cluster, NULL, GET_LOCK({ticket}, {patience})), SESSION wait_timeout = {idle}
