-- Has the server read ahead of time what it is to carry out in a hurry.
SET @statement = {statement};
PREPARE {prepared} FROM @statement;
