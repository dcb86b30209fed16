-- Nobody behind the ticket: who holds has no connection, and a release is seen otherwise
-- (lease_doze.sql); or, when others are before us, they moved on meanwhile: look again at once.
SET @target = IF(@nap < 1000000 OR @before = '' OR
    IS_FREE_LOCK(CONCAT('dlock-', LEFT(HEX(@before), 40))), NULL,
    CONCAT('dlock-', LEFT(HEX(@before), 40))),
  @nap = IF(@target IS NULL AND @first IS NOT NULL AND @nap >= 1000000, 0, @nap), @go = 0;
