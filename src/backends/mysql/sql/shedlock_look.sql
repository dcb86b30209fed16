{shedlock_zone}
{shedlock_state}
