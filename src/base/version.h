/* SPDX-License-Identifier: MIT */
#pragma once

#define DLOCK_VERSION "1.0.0"
