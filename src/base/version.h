/* SPDX-License-Identifier: MIT */
#pragma once

#define DLOCK_VERSION "0.9.0"
