-- Still in line, and awake.
UPDATE dlock_queue SET asleep = 0, seen = IF({tickets}, 0, @now) WHERE id = @me;
