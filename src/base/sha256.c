/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4). */
#include "sha256.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 64

/* Section 4.2.2: the first 32 bits of the fractions of the cube roots of the first primes. */
static const uint32_t rounds[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotr_32(uint32_t x, int by)
{
	return x >> by | x << (32 - by);
}

/* Section 6.2.2 */
static void digest_block(uint32_t h[8], const unsigned char *block)
{
	uint32_t w[64], s[8], t1, t2;

	for (int t = 0; t < 16; t++, block += 4)
		w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 |
		       (uint32_t)block[2] << 8 | block[3];
	for (int t = 16; t < 64; t++)
		w[t] = (rotr_32(w[t - 2], 17) ^ rotr_32(w[t - 2], 19) ^ w[t - 2] >> 10) +
		       (rotr_32(w[t - 15], 7) ^ rotr_32(w[t - 15], 18) ^ w[t - 15] >> 3) +
		       w[t - 7] + w[t - 16];
	memcpy(s, h, sizeof(s));
	for (int t = 0; t < 64; t++) {
		t1 = s[7] + (rotr_32(s[4], 6) ^ rotr_32(s[4], 11) ^ rotr_32(s[4], 25)) +
		     ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[t] + w[t];
		t2 = (rotr_32(s[0], 2) ^ rotr_32(s[0], 13) ^ rotr_32(s[0], 22)) +
		     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

void sha256(const void *data, size_t length, unsigned char digest[SHA256_SIZE])
{
	uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const unsigned char *rest = data;
	unsigned char tail[2 * BLOCK] = { 0 };
	const uint64_t bits = (uint64_t)length * 8;
	size_t left = length, end;

	for (; left >= BLOCK; left -= BLOCK, rest += BLOCK)
		digest_block(h, rest);
	/* Section 5.1.1: a one bit, zeros, the length. */
	memcpy(tail, rest, left);
	tail[left] = 0x80;
	end = left < BLOCK - 8 ? BLOCK : (size_t)2 * BLOCK;
	for (size_t i = 0; i < 8; i++)
		tail[end - 1 - i] = (unsigned char)(bits >> 8 * i);
	for (size_t i = 0; i < end; i += BLOCK)
		digest_block(h, tail + i);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		digest[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
