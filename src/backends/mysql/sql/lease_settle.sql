-- What is left to do for one who waits no longer: the ticket that it slept on, its place in line.
DO RELEASE_LOCK(@target);
DELETE FROM dlock_queue WHERE id = @me;
