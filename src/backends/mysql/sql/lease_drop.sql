-- Nobody sleeps on the ticket of one who holds with others: let the next one look.
DO IF(@mine, RELEASE_LOCK({ticket}), 0);
