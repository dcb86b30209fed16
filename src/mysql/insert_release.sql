-- One acquisition less ({one}), or the end. What has to be kept yet belongs to no token.
-- 2: still held; 1: it was held; 0: it was not.
SET @now = {now};
UPDATE dlock_inserts SET holds = holds - 1
  WHERE name = {name} AND token = {token} AND expires > @now AND {one} AND holds > 1;
SET @left = ROW_COUNT();
UPDATE dlock_inserts SET expires = GREATEST(keep, @now + {rest}), token = ''
  WHERE name = {name} AND token = {token} AND expires > @now AND NOT @left
    AND GREATEST(keep, @now + {rest}) > @now;
SET @kept = ROW_COUNT();
DELETE FROM dlock_inserts
  WHERE name = {name} AND token = {token} AND expires > @now AND NOT @left;
SET @gone = ROW_COUNT();
DELETE FROM dlock_inserts WHERE name = {name} AND token = {token} AND NOT @left;
SELECT IF(@left > 0, 2, IF(@kept > 0 OR @gone > 0, 1, 0));
