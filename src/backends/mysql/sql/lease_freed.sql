-- An exclusive hold given back, or kept taken for a time ({keep}, or what was agreed when it was
-- acquired). What is free is so whatever becomes of the clock: 0, and not this moment, which may
-- come once more. The assignments are made from left to right.
freed = {now},
token = IF(GREATEST(freed + {keep}, keep) > freed, token, ''),
expires = IF(GREATEST(freed + {keep}, keep) > freed, GREATEST(freed + {keep}, keep), 0)
