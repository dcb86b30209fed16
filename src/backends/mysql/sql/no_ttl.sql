-- The rest of it.
IF(owner LIKE 'ttl=%', SUBSTRING(owner, LOCATE('&', owner) + 1), owner)
