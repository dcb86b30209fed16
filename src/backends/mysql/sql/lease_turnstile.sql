CONCAT('dlock-line-', SHA1({name}))
