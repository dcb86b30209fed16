-- First of all the next one wakes up. On RELEASE_ONE it may still be held.
SET @done = ROW_COUNT(), @nap = IF(ROW_COUNT() > 0 OR {all}, RELEASE_LOCK({ticket}), 0);
