-- Wakes one who sleeps, and nobody else: of a request that is interrupted between two of its
-- statements the server leaves out the rest, and does not tell.
SET @sleeper = NULL;
SELECT id INTO @sleeper FROM information_schema.PROCESSLIST
  WHERE id = {connection} AND state IN ('User sleep', 'User lock');
KILL QUERY @sleeper;
