-- Has there been room in the lock l for longer than a waiter may take to come?
GREATEST(l.freed, IF(l.expires <= {clock}, l.expires, 0)) < {clock} - 900000
