-- One after the other gets in line, so that each place is one's own (lease_nap.sql builds on
-- that), unless somebody takes a second for it.
SET @turnstile = IF(@cluster, NULL, IF(IS_USED_LOCK({lease_turnstile}) = CONNECTION_ID(), 1,
  GET_LOCK({lease_turnstile}, 1)));
