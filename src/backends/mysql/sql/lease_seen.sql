-- The same where GET_LOCK is refused.
q.seen > {now} - 15000000
