-- The end; of one acquisition ({one}) only if it is the last one. What has to be kept yet belongs
-- to no token. 2: still held; 1: it was held; 0: it was not.
SET @now = {now};
UPDATE dlock_inserts SET expires = GREATEST(keep, @now + {rest}), token = ''
  WHERE name = {name} AND token = {token} AND expires > @now AND (holds <= 1 OR NOT {one})
    AND GREATEST(keep, @now + {rest}) > @now;
SET @kept = ROW_COUNT();
DELETE FROM dlock_inserts
  WHERE name = {name} AND token = {token} AND expires > @now AND (holds <= 1 OR NOT {one});
SET @gone = ROW_COUNT();
DELETE FROM dlock_inserts WHERE name = {name} AND token = {token} AND expires <= @now;
SELECT IF(@kept > 0 OR @gone > 0, 1, 2 * COUNT(*)) FROM dlock_inserts
  WHERE name = {name} AND token = {token} AND expires > @now;
