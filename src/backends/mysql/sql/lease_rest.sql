-- The ticket that the last sleep may have ended with.
, @nap = RELEASE_LOCK(COALESCE(@target, 'dlock-'))
