-- An earlier connection of ours: does the server still have it, with our ticket?
, @old = IF(IS_USED_LOCK({ticket}) = {connection}, {connection}, NULL)
