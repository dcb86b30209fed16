-- What a release ends with when whoever is next sleeps on our ticket. Nothing comes after it:
-- the server would go on with that before it lets the next one run. Was it ours, and who has
-- the ticket now?
SELECT ROW_COUNT(), IF(ROW_COUNT() > 0 OR {all}, RELEASE_LOCK({ticket}), 0),
  IS_USED_LOCK({ticket});
