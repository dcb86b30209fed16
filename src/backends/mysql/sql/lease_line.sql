-- Gets in line, or finds the place kept, by the token.
SET @place = NULL;
SELECT place INTO @place FROM dlock_queue FORCE INDEX (name)
  WHERE name = {name} ORDER BY id DESC LIMIT 1;
INSERT INTO dlock_queue (name, token, mode, place, since, seen, owner)
  VALUES ({name}, {token}, {mode}, COALESCE(@place, 0) + 1, {now}, {now}, {owner})
  ON DUPLICATE KEY UPDATE asleep = 0;
