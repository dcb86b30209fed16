/* SPDX-License-Identifier: MIT */
/* The parser. uri_text.c and uri_param.c have the rest of uri.h. */
#include "uri.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

/*
 * The places of the parts of a URI, whatever is in them. The parser and uri_find_password() use
 * them both, so that the one hides what the other takes for a password.
 */
struct layout {
	bool has_scheme, has_authority;
	const char *scheme_end;		/* the ':' when there is a scheme */
	const char *rest;		/* what follows that ':' */
	const char *authority;		/* after "//"; empty without */
	const char *authority_end;
	/*
	 * From rest up to here an '@' ends a password. This is the beginning of the query, or the
	 * end of the text where the ports are not numbers: then the authority may be the first half
	 * of a password that has a '/' or '?' in it.
	 */
	const char *at_end;
	const char *end;
};

/* Are all ':' outside brackets, from s to end, followed by digits alone? */
static bool ports_are_numbers(const char *s, const char *end)
{
	bool bracket = false;

	while (s < end) {
		char c = *s++;

		bracket = c == '[' || (bracket && c != ']');
		if (c != ':' || bracket)
			continue;
		if (s == end || !text_is_digit(*s))
			return false;
		while (s < end && text_is_digit(*s))
			s++;
		if (s < end && *s != ',')
			return false;
	}
	return true;
}

static bool is_path_scheme(const char *scheme, size_t length)
{
	return (length == 4 && strncasecmp(scheme, "file", 4) == 0) ||
	       (length > 5 && strncasecmp(scheme + length - 5, "+unix", 5) == 0);
}

static void find_parts(struct layout *layout, const char *text)
{
	const char *s = text, *end = text + strlen(text), *hosts, *query;

	while (text_is_letter(*s) || text_is_digit(*s) || *s == '+' || *s == '-' || *s == '.')
		s++;
	layout->scheme_end = s;
	layout->has_scheme = text_is_letter(*text) && *s == ':';
	layout->rest = s += *s == ':';
	layout->has_authority = s[0] == '/' && s[1] == '/';
	s += layout->has_authority ? 2 : 0;
	layout->authority = s;
	s += layout->has_authority ? strcspn(s, "/?#") : 0;
	layout->authority_end = s;
	layout->end = end;

	query = memchr(s, '?', (size_t)(end - s));
	hosts = memrchr(layout->authority, '@', (size_t)(s - layout->authority));
	layout->at_end = end;
	if (query && (*layout->rest == '/' || *layout->rest == '?') &&
	    ports_are_numbers(hosts ? hosts : layout->authority, s))
		layout->at_end = query;
	/* In the path of such a scheme an '@' has no meaning. */
	if (layout->authority == layout->authority_end && *layout->rest == '/' &&
	    is_path_scheme(text, (size_t)(layout->scheme_end - text)))
		layout->at_end = layout->rest;
}

const char *uri_find_password(const char *text, size_t *length)
{
	struct layout layout;
	const char *from, *at, *colon;

	find_parts(&layout, text);
	at = memrchr(layout.rest, '@', (size_t)(layout.at_end - layout.rest));
	if (!at)
		return NULL;
	from = layout.authority;
	if (*layout.rest != '/' && *layout.scheme_end == ':')
		from = layout.scheme_end;	/* "user:password@host" */
	if (from >= at)
		return NULL;
	colon = memchr(from, ':', (size_t)(at - from));
	if (!colon || colon + 1 == at)
		return NULL;
	*length = (size_t)(at - colon - 1);
	return colon + 1;
}

const char *uri_redact(const char *text, char *buf, size_t size)
{
	static const char stars[] = "***";
	size_t length, used;
	const char *password = uri_find_password(text, &length);

	if (!password) {
		text_clean(text, strlen(text), buf, size);
		return buf;
	}
	used = text_clean(text, (size_t)(password - text), buf, size);
	used += text_clean(stars, strlen(stars), buf + used, size - used);
	if (used + 1 < size)	/* otherwise the text is cut here */
		text_clean(password + length, strlen(password + length), buf + used,
			   size - used);
	return buf;
}

/* A part of the text being parsed. */
struct span {
	const char *s, *end;
};

struct parser {
	struct uri *uri;
	struct error *err;
	char *out;		/* the place of the next string in the storage */
};

/*
 * Every message of the parser begins with the scheme, and shows no part of the URI that is a
 * password or that could be one.
 */
#define FAIL(parser, ...) \
	(error_set((parser)->err, ERROR_USAGE, 0, __VA_ARGS__), \
	 error_prefix((parser)->err, "bad %.32s URI", (parser)->uri->scheme), -1)

static struct span span(const char *s, const char *end)
{
	return (struct span){ s, end };
}

static size_t span_length(struct span part)
{
	return (size_t)(part.end - part.s);
}

/* Cuts at the first c: returns what stands before it, *part becomes the rest. */
static struct span span_cut(struct span *part, char c)
{
	struct span first = *part;

	while (part->s < part->end && *part->s != c)
		part->s++;
	first.end = part->s;
	part->s += part->s < part->end;
	return first;
}

static size_t count(struct span part, char c)
{
	size_t n = 0;

	while (part.s < part.end)
		n += *part.s++ == c;
	return n;
}

/* Decodes part to the storage. Messages name the part (what) and show it unless it is secret. */
static int put(struct parser *parser, struct span part, const char *what, bool secret,
	       char **string)
{
	char quoted[TEXT_QUOTE_SIZE];

	*string = parser->out;
	while (part.s < part.end) {
		size_t left = span_length(part);
		int c = (unsigned char)*part.s;

		if (c == '%')
			c = uri_unescape(part.s, part.end);
		if (c < 0 && secret)
			return FAIL(parser, "bad percent-encoding in the %s: write %%25 for '%%'",
				    what);
		if (c < 0)
			return FAIL(parser,
				    "bad percent-encoding '%s' in the %s: write %%25 for '%%'",
				    text_quote(part.s, left < 3 ? left : 3, quoted), what);
		if (c < 0x20 || c == 0x7f)
			return FAIL(parser, "control character in the %s: take it out", what);
		part.s += *part.s == '%' ? 3 : 1;
		*parser->out++ = (char)c;
	}
	*parser->out++ = '\0';
	return 0;
}

static int check_layout(struct parser *parser, const struct layout *layout)
{
	size_t rest_length = (size_t)(layout->at_end - layout->rest);
	const char *at = memchr(layout->rest, '@', rest_length);

	if (memchr(layout->rest, '#', (size_t)(layout->end - layout->rest)))
		return FAIL(parser, "a fragment makes no sense here: write %%23 for '#'");
	if (at && (at < layout->authority || at >= layout->authority_end ||
		   memrchr(layout->rest, '@', rest_length) != at))
		return FAIL(parser, "'@' belongs before the hosts, once: elsewhere write %%40, "
			    "and in a password %%2F for '/', %%3F for '?'");
	if (layout->has_authority || !*layout->rest || strchr("/?", *layout->rest))
		return 0;
	if (is_path_scheme(parser->uri->scheme, strlen(parser->uri->scheme)))
		return FAIL(parser, "the path must begin with '/'");
	return FAIL(parser, "'//' is missing after '%.32s:'", parser->uri->scheme);
}

/* Parses the digits behind the ':' of a host. */
static int parse_port(struct parser *parser, struct span part, struct uri_host *host)
{
	char name[TEXT_QUOTE_SIZE], digits[TEXT_QUOTE_SIZE];
	unsigned long port = 0;
	const char *s;

	text_quote(host->name, strlen(host->name), name);
	for (s = part.s; s < part.end && text_is_digit(*s); s++)
		if (port <= UINT16_MAX)
			port = port * 10 + (unsigned long)(*s - '0');
	/* Text that is no number may be a password whose "@host" somebody forgot. */
	if (s < part.end || part.s == part.end)
		return FAIL(parser, "bad port after host '%s': it is %s; write a number from 1 "
			    "to 65535", name, part.s == part.end ? "empty" : "not a number");
	if (port == 0 || port > UINT16_MAX)
		return FAIL(parser, "bad port %s after host '%s': write a number from 1 to 65535",
			    text_quote(part.s, span_length(part), digits), name);
	host->port = (uint16_t)port;
	return 0;
}

/* Is name an IPv6 address, perhaps with a zone ("fe80::1%eth0")? */
static bool is_ipv6(const char *name)
{
	size_t length = strcspn(name, "%");
	char address[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	if (length >= sizeof(address) || (name[length] && !name[length + 1]))
		return false;
	memcpy(address, name, length);
	address[length] = '\0';
	return inet_pton(AF_INET6, address, &in6) == 1;
}

static int parse_bracketed(struct parser *parser, struct span *part, struct uri_host *host)
{
	char quoted[TEXT_QUOTE_SIZE];
	const char *close = memchr(part->s, ']', span_length(*part));

	text_quote(part->s, span_length(*part), quoted);
	if (!close)
		return FAIL(parser, "no ']' after host '%s'", quoted);
	if (put(parser, span(part->s + 1, close), "host", false, &host->name) < 0)
		return -1;
	if (!is_ipv6(host->name) || (close + 1 < part->end && close[1] != ':'))
		return FAIL(parser, "bad host '%s': in brackets belongs an IPv6 address, "
			    "and after them nothing or a port", quoted);
	part->s = close + 1;
	return 0;
}

/* Parses one "host[:port]". position, for messages, counts from 1. */
static int parse_host(struct parser *parser, struct span part, struct uri_host *host,
		      size_t position)
{
	char quoted[TEXT_QUOTE_SIZE];
	struct span name;

	if (part.s < part.end && *part.s == '[') {
		if (parse_bracketed(parser, &part, host) < 0)
			return -1;
		return part.s < part.end ?
		       parse_port(parser, span(part.s + 1, part.end), host) : 0;
	}
	if (count(part, ':') > 1)
		return FAIL(parser, "too many ':' in host %zu: an IPv6 address belongs in "
			    "brackets, as in [::1]:6379", position);
	name = span_cut(&part, ':');
	if (name.s == name.end)
		return FAIL(parser, "missing host: the name of host %zu is empty", position);
	if (put(parser, name, "host", false, &host->name) < 0)
		return -1;
	if (strpbrk(host->name, " \"%,/:?@[\\]"))
		return FAIL(parser, "bad host '%s': no name or address of a host",
			    text_quote(host->name, strlen(host->name), quoted));
	/* Behind a ':' there must be a port. */
	return *name.end == ':' ? parse_port(parser, part, host) : 0;
}

static int parse_authority(struct parser *parser, struct span part)
{
	struct uri *uri = parser->uri;
	struct span userinfo, user;
	size_t i, n;

	if (memchr(part.s, '@', span_length(part))) {
		userinfo = span_cut(&part, '@');
		user = span_cut(&userinfo, ':');
		if (put(parser, user, "user name", false, &uri->user) < 0)
			return -1;
		if (*user.end == ':' &&
		    put(parser, userinfo, "password", true, &uri->password) < 0)
			return -1;
	}
	n = part.s < part.end ? count(part, ',') + 1 : 0;
	for (i = 0; i < n; i++)
		if (parse_host(parser, span_cut(&part, ','), &uri->hosts[i], i + 1) < 0)
			return -1;
	uri->host_count = n;
	return 0;
}

static int parse_query(struct parser *parser, struct span query)
{
	struct uri *uri = parser->uri;
	char quoted[TEXT_QUOTE_SIZE];

	while (query.s < query.end) {
		struct uri_param *param = &uri->params[uri->param_count];
		struct span value = span_cut(&query, '&'), name;

		if (value.s == value.end)
			continue;
		name = span_cut(&value, '=');
		if (name.s == name.end)
			return FAIL(parser, "a parameter has no name: write ?NAME=VALUE&...");
		if (put(parser, name, "name of a parameter", false, &param->name) < 0 ||
		    put(parser, value, "value of a parameter", false, &param->value) < 0)
			return -1;
		if (uri_param(uri, param->name))
			return FAIL(parser, "parameter '%s' is given twice",
				    text_quote(param->name, strlen(param->name), quoted));
		uri->param_count++;
	}
	return 0;
}

/* Allocates one block: the arrays first, for alignment, then the strings, each with a NUL. */
static void allocate(struct parser *parser, const struct layout *layout,
		     const char *text)
{
	struct uri *uri = parser->uri;
	size_t hosts = count(span(layout->authority, layout->authority_end), ',') + 1;
	size_t params = count(span(layout->rest, layout->end), '&') + 1;
	size_t strings = (size_t)(layout->end - text) + hosts + 2 * params + 4;
	char *block;

	uri->storage_size = hosts * sizeof(*uri->hosts) + params * sizeof(*uri->params) +
			    strings;
	block = memory_new(1, uri->storage_size);
	uri->storage = block;
	uri->hosts = (struct uri_host *)(void *)block;
	uri->params = (struct uri_param *)(void *)(uri->hosts + hosts);
	parser->out = (char *)(uri->params + params);
}

static int parse(struct parser *parser, const struct layout *layout,
		 const char *text)
{
	struct uri *uri = parser->uri;
	struct span query = span(layout->authority_end, layout->end), path;

	/* The scheme comes first, because messages begin with it. */
	uri->scheme = parser->out;
	for (; text < layout->scheme_end; text++)
		*parser->out++ = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
	*parser->out++ = '\0';
	if (check_layout(parser, layout) < 0)
		return -1;
	path = span_cut(&query, '?');
	if (parse_authority(parser, span(layout->authority, layout->authority_end)) < 0 ||
	    put(parser, path, "path", false, &uri->path) < 0 ||
	    parse_query(parser, query) < 0)
		return -1;
	return 0;
}

int uri_parse(struct uri *uri, const char *text, struct error *err)
{
	struct parser parser = { .uri = uri, .err = err };
	char shown[TEXT_QUOTE_SIZE];
	struct layout layout;

	memset(uri, 0, sizeof(*uri));
	find_parts(&layout, text);
	if (!layout.has_scheme)
		return error_set(err, ERROR_USAGE, 0, "bad URI '%s': it must begin with a "
				 "scheme, such as redis:// or file:", uri_redact(text, shown,
				 sizeof(shown)));
	allocate(&parser, &layout, text);
	if (parse(&parser, &layout, text) < 0) {
		uri_finish(uri);
		return -1;
	}
	return 0;
}

void uri_finish(struct uri *uri)
{
	memory_free_secret(uri->loaded_password);
	memory_free_secret(uri->sentinel_password);
	if (uri->storage)
		explicit_bzero(uri->storage, uri->storage_size);
	free(uri->storage);
	memset(uri, 0, sizeof(*uri));
}
