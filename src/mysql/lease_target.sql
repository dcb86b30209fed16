-- Nobody behind the ticket: who holds has no connection, and a release is seen otherwise
-- (lease_doze.sql).
SET @target = IF(@nap < 1000000 OR @before = '' OR
    IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(@before), 40))), NULL,
  CONCAT('dlock-', LEFT(HEX(@before), 40))), @go = 0;
