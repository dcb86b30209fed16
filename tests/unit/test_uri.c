/* SPDX-License-Identifier: MIT */
/* Tests src/lock/uri.c. */
#include "base/error.h"
#include "base/text.h"
#include "lock/uri.h"
#include "unit.h"

/* parts: what format_uri() makes of a parsed URI */
static const struct {
	const char *text, *parts;
} good[] = {
	{ "file:", "file" },
	{ "file:///run/lock/dlock", "file path=/run/lock/dlock" },
	{ "file:/run", "file path=/run" },
	{ "file:///with%20blank/%C3%A9", "file path=/with blank/\xc3\xa9" },
	{ "file:///home/a@b/c:d@e", "file path=/home/a@b/c:d@e" },
	{ "file:///a?timeout=1s", "file path=/a timeout=1s" },
	{ "file:?x", "file x=" },
	{ "FILE:///a", "file path=/a" },
	{ "redis://", "redis" },
	{ "redis://h", "redis host=h" },
	{ "redis://h/", "redis host=h path=/" },
	{ "redis://h:6379/0", "redis host=h:6379 path=/0" },
	{ "redis://h:1", "redis host=h:1" },
	{ "redis://h:65535", "redis host=h:65535" },
	{ "redis://h:00080", "redis host=h:80" },
	{ "RediS+Sentinel://a,b:2,c/m/1", "redis+sentinel host=a host=b:2 host=c path=/m/1" },
	{ "redis+unix:///run/redis.sock?db=1", "redis+unix path=/run/redis.sock db=1" },
	{ "redis+unix:///run/user@1/x:y@z", "redis+unix path=/run/user@1/x:y@z" },
	{ "redis+unix://:pw@/run/redis.sock", "redis+unix user= password=pw path=/run/redis.sock" },
	{ "x.y-z+1://h", "x.y-z+1 host=h" },
	{ "redis://:pw@h", "redis user= password=pw host=h" },
	{ "redis://u@h", "redis user=u host=h" },
	{ "redis://u:@h", "redis user=u password= host=h" },
	{ "redis://@h", "redis user= host=h" },
	{ "redis://u:p@", "redis user=u password=p" },
	{ "redis://u:p:q@h", "redis user=u password=p:q host=h" },
	{ "redis://u:p,q@h,i", "redis user=u password=p,q host=h host=i" },
	{ "redis://u%3A:p%40%2f%3F%23%25@h", "redis user=u: password=p@/?#% host=h" },
	{ "redis://u:\xff%fe@h", "redis user=u password=\xff\xfe host=h" },
	{ "redis://u:p[@h", "redis user=u password=p[ host=h" },
	{ "redis://[::1]", "redis host=::1" },
	{ "redis://[::1]:6379,[2001:DB8::2],h", "redis host=::1:6379 host=2001:DB8::2 host=h" },
	{ "redis://u:p@[fe80::1%25eth0]:7/1",
	  "redis user=u password=p host=fe80::1%eth0:7 path=/1" },
	{ "redis://[::ffff:192.0.2.1]", "redis host=::ffff:192.0.2.1" },
	{ "redis://192.0.2.1:7", "redis host=192.0.2.1:7" },
	{ "redis://h_1.example.:1", "redis host=h_1.example.:1" },
	{ "redis://%68%6F", "redis host=ho" },
	{ "zk://h//a//b", "zk host=h path=//a//b" },
	{ "zk://h/%2e./%2F", "zk host=h path=/..//" },
	{ "r://h?", "r host=h" },
	{ "r://h?a", "r host=h a=" },
	{ "r://h?a=", "r host=h a=" },
	{ "r://h?&a=1&&b=2&", "r host=h a=1 b=2" },
	{ "r://h?a=b=c", "r host=h a=b=c" },
	{ "r://h?a=?/:", "r host=h a=?/:" },
	{ "r://h?a=%26%3d&%62=+", "r host=h a=&= b=+" },
	{ "r://h?A=1&a=2", "r host=h A=1 a=2" },
	{ "r://h/p?a=/x?b=y", "r host=h path=/p a=/x?b=y" },
	{ "r://h:1/0?password-file=/run/x@y", "r host=h:1 path=/0 password-file=/run/x@y" },
	{ "r://u:p@h/0?f=/a@b", "r user=u password=p host=h path=/0 f=/a@b" },
	{ "r://u:p@[::1]:1?f=/a:b@c", "r user=u password=p host=::1:1 f=/a:b@c" },
};

/* Everything of a URI in one line: easier to compare, and to read when it fails. */
static void format_uri(const struct uri *uri, char *buf, size_t size)
{
	FILE *out = fmemopen(buf, size, "w");
	size_t i;

	fputs(uri->scheme, out);
	if (uri->user)
		fprintf(out, " user=%s", uri->user);
	if (uri->password)
		fprintf(out, " password=%s", uri->password);
	for (i = 0; i < uri->host_count; i++) {
		fprintf(out, " host=%s", uri->hosts[i].name);
		if (uri->hosts[i].port)
			fprintf(out, ":%d", uri->hosts[i].port);
	}
	if (*uri->path)
		fprintf(out, " path=%s", uri->path);
	for (i = 0; i < uri->param_count; i++)
		fprintf(out, " %s=%s", uri->params[i].name, uri->params[i].value);
	fclose(out);
}

static void test_good(void)
{
	char shown[512];
	struct error err;
	struct uri uri;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("%s", good[i].text);
		memset(&uri, 'x', sizeof(uri));
		memset(&err, 0, sizeof(err));
		CHECK_INT(uri_parse(&uri, good[i].text, &err), 0);
		CHECK_STR(err.message, "");
		if (*err.message)
			continue;
		format_uri(&uri, shown, sizeof(shown));
		CHECK_STR(shown, good[i].parts);
		uri_finish(&uri);
		CHECK(!uri.storage && !uri.password);
		uri_finish(&uri);
	}
}

/* Wherever there is a password, it is "s3cret". */
static const struct {
	const char *text, *says;
} bad[] = {
	{ "", "scheme" }, { "prod", "'prod': it must begin with a scheme" },
	{ ":", "scheme" }, { "://h", "scheme" }, { "/run", "scheme" }, { "//h", "scheme" },
	{ "1redis://h", "scheme" }, { "+r://h", "scheme" }, { "re_dis://h", "scheme" },
	{ " redis://h", "scheme" }, { "r\xc3\xa9://h", "scheme" },
	{ "//u:s3cret@h", "scheme" }, { " redis://u:s3cret@h", "' redis://u:***@h'" },
	{ "redis//u:s3cret@h", "scheme" },
	{ "redis:h", "bad redis URI: '//' is missing after 'redis:'" },
	{ "redis:h:6379", "'//' is missing" },
	{ "file:locks", "bad file URI: the path must begin with '/'" },
	{ "redis+unix:redis.sock", "the path must begin with '/'" },
	/* hosts */
	{ "redis://:6379", "bad host 1: write HOST" }, { "redis://,", "bad host 1" },
	{ "redis://a,,b", "bad host 2" }, { "redis://a,b,", "bad host 3" },
	{ "redis://u:s3cret@:1", "bad host 1" }, { "redis://u:s3cret@,h", "bad host 1" },
	{ "redis://h h", "bad host" }, { "redis://h%2Fx", "bad host" },
	{ "redis://a%2Cb", "bad host" }, { "redis://a%3A1", "bad host" },
	{ "redis://a]", "bad host" },
	{ "redis://h%0a", "control character in the host" },
	{ "redis://::1", "brackets" }, { "redis://fe80::1:6379", "brackets" },
	{ "redis://a:1:2", "host 1" }, { "redis://a,b:1:2", "host 2" },
	{ "redis://[::1", "bad host" }, { "redis://[::1,h", "bad host" },
	{ "redis://[]", "bad host" },
	{ "redis://[::1]x", "bad host" }, { "redis://[::1]x:1", "bad host" },
	{ "redis://[::1]]", "bad host" },
	{ "redis://[h]", "bad host" }, { "redis://[192.0.2.1]", "bad host" },
	{ "redis://[::1%25]", "bad host" }, { "redis://[1:2]", "bad host" },
	{ "redis://[1:2:3:4:5:6:7:8:9]", "bad host" },
	{ "redis://[0000:0000:0000:0000:0000:0000:0000:0000:0000]", "bad host" },
	/* ports */
	{ "redis://h:0", "bad port of host 1" }, { "redis://h:00", "bad port" },
	{ "redis://i,h:65536", "bad port of host 2" },
	{ "redis://h:99999999999999999999999", "bad port" },
	{ "redis://h:18446744073709551617", "bad port" },
	{ "redis://h:", "bad port" }, { "redis://h:/0", "bad port" },
	{ "redis://h:,i", "bad port" }, { "redis://[::1]:", "bad port" },
	{ "redis://h:x", "bad port" },
	{ "redis://h:1x", "bad port" }, { "redis://h:-1", "bad port" },
	{ "redis://h:+1", "bad port" },
	{ "redis://h: 1", "bad port" }, { "redis://h:%31", "bad port" },
	{ "redis://h:6379?", NULL },
	{ "redis://u:s3cret", "bad port of host 1" },	/* the host was forgotten */
	{ "redis://a,u:s3cret", "bad port of host 2" },
	/* percent-encoding */
	{ "redis://h/%", "in the path: write %25 for '%'" }, { "redis://h/%4", "in the path" },
	{ "redis://h/a%zz%41", "in the path" }, { "redis://h/%4g", "in the path" },
	{ "redis://h%", "in the host" }, { "redis://%h/", "in the host" },
	{ "redis://u%@h", "in the user name" }, { "redis://h?a=%x1", "in the value" },
	{ "redis://h?%=1", "in the name" }, { "redis://h/%\xc3\xa9", "in the path" },
	{ "redis://u:s3cret%@h", "bad percent-encoding in the password: write %25" },
	{ "redis://u:%s3cret@h", "bad percent-encoding in the password" },
	/* control characters */
	{ "redis://h/%00", "control character in the path" }, { "redis://h/\n", "control" },
	{ "redis://h/%7f", "control" }, { "redis://u%01@h", "in the user name" },
	{ "redis://u:s3cret%00@h", "in the password" }, { "redis://h?a=%0A", "in the value" },
	{ "redis://h?%1B=1", "in the name" }, { "redis://u:s3cret\t@h", "in the password" },
	/* fragment */
	{ "redis://h#", "write %23" }, { "redis://h/#x", "write %23" },
	{ "file:///a#b", "write %23" },
	{ "redis://h?a=#", "write %23" }, { "redis://u:s3c#s3cret@h", "write %23" },
	/* a password, not encoded */
	{ "redis://u:s3cret/@h", "write %40" }, { "redis://u:1/s3cret@h", "%2F" },
	{ "redis://u:s3cret?@h", "%3F" }, { "redis://u:x?s3cret@h", "%3F" },
	{ "redis://u:1?x@h", "%3F" },
	{ "redis://u:x?a=s3cret@h", "bad port" }, { "redis://u:a@s3cret@h", "%40" },
	{ "redis://:/s3cret@h", "%2F" }, { "redis://u/:s3cret@h", "%2F" },
	{ "redis://u@corp:s/s3cret@h", "%40" }, { "redis://u:a@h1,u:s3cret@h2", "%40" },
	{ "redis://h/0@x", "%40" }, { "redis:u:s3cret@h", "'//' is missing" },
	{ "u:s3cret@h", "'//' is missing" },
	{ "redis:/u:s3cret@h", "%40" }, { "redis:///u:s3cret@h", "%40" },
	/* parameters */
	{ "r://h?=1", "no name" }, { "r://h?a=1&=", "no name" },
	{ "r://h?a=1&b=2&a=3", "parameter 'a' is given twice" }, { "r://h?a&a", "twice" },
	{ "r://h?a=1&%61=1", "twice" },
};

/* [33] */
static void test_bad(void)
{
	char shown[128];
	struct error err;
	struct uri uri = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("%s", bad[i].text);
		memset(&err, 0, sizeof(err));
		CHECK_INT(uri_parse(&uri, bad[i].text, &err), bad[i].says ? -1 : 0);
		CHECK_LACKS(err.message, "s3cret");
		CHECK_LACKS(err.message, "\n");
		if (!bad[i].says) {
			uri_finish(&uri);
			continue;
		}
		CHECK_INT(err.kind, ERROR_USAGE);
		CHECK_HAS(err.message, bad[i].says);
		CHECK(!uri.storage);
		if (!strstr(bad[i].text, "s3cret") || !strchr(bad[i].text, '@'))
			continue;
		CHECK_LACKS(text_quote(bad[i].text, shown, sizeof(shown)), "s3cret");
	}
}

int main(void)
{
	test_good();
	test_bad();
	return unit_done();
}
