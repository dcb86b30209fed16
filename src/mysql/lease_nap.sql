-- For how long (@nap, microseconds) is there nothing to do for me? Who is first waits
-- until the lease ends, the others for the one before them; who should have come, and
-- did not for 0.9 s, is passed over.
SET @target = NULL, @go = 0, @nap = CASE
  WHEN @mine OR @version IS NULL OR @ticket = 0 OR @me = 18446744073709551615 THEN 0
  WHEN @first IS NULL THEN LEAST(@rest + 2000, 5000000)
  WHEN @open IS NOT NULL THEN LEAST(GREATEST(905000 - @open, 0), 5000000)
  ELSE 5000000 END;
