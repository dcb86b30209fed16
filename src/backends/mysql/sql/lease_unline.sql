-- Out of the line, by the primary key, as all who delete there.
SET @me = NULL;
SELECT id INTO @me FROM dlock_queue WHERE token = {token};
DELETE FROM dlock_queue WHERE id = @me;
