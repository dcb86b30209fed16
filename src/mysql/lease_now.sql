SET @now = {now}, @me = NULL, @first = NULL, @firstmode = NULL;
