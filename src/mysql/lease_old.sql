-- A connection of ours that is not this one, but that the server has not missed yet.
SET @old = NULLIF(IS_USED_LOCK({ticket}), CONNECTION_ID());
