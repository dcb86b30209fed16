-- The moment of asking, where {now} is the one when its statement began: on a node of Galera,
-- that of the whole request. Of no use in what is written to a log of statements. The
-- session's time zone is UTC.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))
