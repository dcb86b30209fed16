-- The ticket that it slept on was let go, on this connection, which remembers who was before
-- it (@first): a try with nothing else around it, and nothing after it, for the client is
-- not woken earlier. As ever, the UPDATE decides; its assignments are
-- made from left to right.
UPDATE dlock_locks SET
    holds = 1, since = {now}, keep = IF({keep} = 0, 0, since + {keep}),
    version = LAST_INSERT_ID(GREATEST(version + 1, since)),
    mode = 0, token = {token}, owner = {owner}, expires = since + {ttl}
  WHERE name = {name} AND expires <= {now} AND @first IS NULL;
