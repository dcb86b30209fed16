-- A part of @nap without a ticket to sleep on, after a look at how it stands (lease_peek.sql).
-- Several of both go in one request; once @go is set the rest does nothing.
SET @go = IF(@go OR @target IS NOT NULL OR @nap <= 0, 1, SLEEP(LEAST(@nap, {slice}) / 1000000)),
  @nap = @nap - IF(@target IS NULL, {slice}, 0);
