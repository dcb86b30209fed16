-- The pause of a waiter, so that others can see who waits, and for what.
DO {waiter} SLEEP({pause} / 1000);
