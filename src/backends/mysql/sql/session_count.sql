-- One acquisition more or less of a hold, but never the last one less.
UPDATE dlock_sessions SET count = count + {delta}
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest} AND count + {delta} > 0;
SELECT ROW_COUNT(), MAX(fence) FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest};
