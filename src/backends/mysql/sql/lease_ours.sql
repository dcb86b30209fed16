-- Held by us, exclusively, and for the last time.
name = {name} AND token = {token} AND mode = 0 AND expires > {now} AND (holds <= 1 OR {all})
