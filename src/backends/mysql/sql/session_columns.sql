-- What earlier versions of the table lack.
SELECT lease, dead_by FROM dlock_sessions LIMIT 0;
