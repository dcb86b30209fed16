SET @done = ROW_COUNT();
