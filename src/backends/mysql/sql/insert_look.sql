SET @now = {now};
{insert_state}
