-- Still in line, and awake.
UPDATE dlock_queue SET asleep = 0 WHERE id = @me;
