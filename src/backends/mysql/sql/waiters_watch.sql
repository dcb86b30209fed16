-- An alarm clock for who waits for the end of a hold, which the server does not announce.
DO SLEEP({pause});
