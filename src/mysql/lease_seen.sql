-- The same where GET_LOCK is refused: it has looked within 15 s.
q.seen > @now - 15000000
