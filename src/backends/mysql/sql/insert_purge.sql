-- Rows of others that died, a minute ago or longer.
DELETE FROM dlock_inserts WHERE expires < {now} - 60000000 ORDER BY expires LIMIT 100;
