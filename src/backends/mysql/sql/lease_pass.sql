-- Passes over the first one in line before me, who had its turn and did not come; it
-- keeps its place for when it wakes. The next one has its turn from now on.
UPDATE dlock_queue SET asleep = 1 WHERE id = {first};
UPDATE dlock_locks SET freed = {now} WHERE name = {name};
