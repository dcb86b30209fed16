SET @turnstile = IF(@turnstile, RELEASE_LOCK({lease_turnstile}), NULL);
