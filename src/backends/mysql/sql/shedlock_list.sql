-- ShedLock's table has no other key: all of it has to be read.
{shedlock_zone}
SELECT name FROM shedlock WHERE lock_until > UTC_TIMESTAMP(3);
