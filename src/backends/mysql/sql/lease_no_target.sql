SET @target = NULL, @go = 0;
