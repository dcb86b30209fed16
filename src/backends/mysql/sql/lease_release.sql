-- Gives an exclusive hold back, the last acquisition or all of them.
UPDATE dlock_locks SET {lease_freed} WHERE {lease_ours};
