/* SPDX-License-Identifier: MIT */
#ifndef DLOCK_VERSION_H
#define DLOCK_VERSION_H

#define DLOCK_VERSION "0.9.0"

#endif
