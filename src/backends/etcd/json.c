/* SPDX-License-Identifier: MIT */
/* Fields of requests and replies. The gateway writes large numbers as text, and bytes in base64. */
#include <string.h>

#include "base/memory.h"
#include "etcd.h"

struct json_object *etcd_get(struct json_object *object, const char *path)
{
	struct json_object *value = NULL;

	return json_pointer_get(object, path, &value) ? NULL : value;
}

int64_t etcd_number(struct json_object *object, const char *path)
{
	return json_object_get_int64(etcd_get(object, path));
}

const char *etcd_text(struct json_object *object, const char *path)
{
	const char *text = json_object_get_string(etcd_get(object, path));

	return text ? text : "";
}

size_t etcd_array(struct json_object *object, const char *path, struct json_object **array)
{
	*array = etcd_get(object, path);
	return json_object_is_type(*array, json_type_array) ? json_object_array_length(*array) : 0;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *etcd_encode(const char *data, size_t length)
{
	char *text = memory_new(length / 3 + 1, 4 + 1), *out = text;
	unsigned bits;

	for (size_t i = 0; i < length; i += 3) {
		bits = 0;
		for (size_t j = i; j < i + 3; j++)
			bits = bits << 8 | (j < length ? (unsigned char)data[j] : 0);
		/* A byte that is not there leaves a digit out. */
		for (size_t j = 0; j < 4; j++)
			*out++ = i + j > length ? '=' : digits[bits >> (18 - 6 * j) & 63];
	}
	*out = '\0';
	return text;
}

char *etcd_decode(const char *text, size_t *length)
{
	char *data = memory_new(strlen(text) / 4 + 1, 3 + 1);
	const char *digit;
	unsigned bits = 0;
	size_t count = 0;

	*length = 0;
	for (; *text && (digit = strchr(digits, *text)); text++) {
		bits = bits << 6 | (unsigned)(digit - digits);
		/* Each digit but the first of four completes a byte. */
		if (++count % 4 != 1)
			data[(*length)++] = (char)(bits >> (8 - 2 * (count % 4)) % 8);
	}
	if (*text && *text != '=')
		*length = 0;
	data[*length] = '\0';
	return data;
}
