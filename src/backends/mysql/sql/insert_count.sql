-- One acquisition more or less ({step}) than those that were seen ({holds}). Compares and sets, so that what was sent twice counts once. Was it counted, how many
-- are there (0: it is not ours), and the fence.
SET @now = {now};
UPDATE dlock_inserts SET
    holds = holds + {step}, {counted}
  WHERE name = {name} AND token = {token} AND expires > @now AND holds = {holds};
SET @counted = ROW_COUNT();
SELECT @counted, COALESCE(MAX(holds), 0), COALESCE(MAX(fence), 0) FROM dlock_inserts
  WHERE name = {name} AND token = {token} AND expires > @now;
