-- Where there are no tickets: still in line.
UPDATE dlock_queue SET seen = {now} WHERE id = @me;
