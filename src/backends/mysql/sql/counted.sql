-- A hold is acquired {step} times more, which extends it and makes no lease shorter, or less.
owner = IF({step} > 0, CONCAT('ttl=', GREATEST({ttl} DIV 1000, {own_ttl}), '&', {no_ttl}), owner),
expires = IF({step} > 0, @now + 1000 * {own_ttl}, expires)
