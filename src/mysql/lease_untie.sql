-- On RELEASE_ONE it may still be held.
DO IF(@done OR {all}, RELEASE_LOCK({ticket}), 0);
