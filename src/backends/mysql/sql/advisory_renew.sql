{session_extend}
{advisory_prove}
