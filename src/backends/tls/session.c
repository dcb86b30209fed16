/* SPDX-License-Identifier: MIT */
/*
 * A session of OpenSSL: the files that a URI names, the handshake, and messages for what fails.
 * base/tls.h describes the module.
 */
#include "base/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "base/version.h"

struct tls_session {
	SSL *ssl;
	const struct tls_params *tls;	/* the address owns it, and host */
	const char *host;	/* the name that the certificate must have */
	bool broken;		/* nothing may be sent any more, not even the end */
};

/* ---- the files */

/* For how long, in ms, a context serves further connections. */
#define SHARED_MS 1000

/* Check a file first: OpenSSL would block on a FIFO, and its messages do not name the file. */
static int check_path(const char *path, const char *parameter, bool *is_directory,
		      struct error *err)
{
	struct stat st;

	if (stat(path, &st) || access(path, R_OK))
		return error_set(err, ERROR_USAGE, errno, "?%s=: %.250s", parameter, path);
	if (S_ISREG(st.st_mode) || (is_directory && S_ISDIR(st.st_mode))) {
		if (is_directory)
			*is_directory = S_ISDIR(st.st_mode);
		return 0;
	}
	return error_set(err, ERROR_USAGE, 0, "?%s=: %.250s: not a regular file", parameter, path);
}

static const char *get_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_error());

	return text ? text : "no reason given";
}

/*
 * Trust the authorities that the system trusts. They are not everywhere where this library, which
 * the one file of `make static` has from Debian, looks for them.
 */
static void trust_system(SSL_CTX *context)
{
	static const char *const elsewhere[] = {
		"/etc/ssl/certs/ca-certificates.crt",	/* Alpine, Arch, Gentoo */
		"/etc/pki/tls/certs/ca-bundle.crt",	/* Fedora, RHEL */
		"/etc/ssl/ca-bundle.pem",		/* openSUSE */
	};
	bool found = getenv(X509_get_default_cert_file_env()) ||
		     getenv(X509_get_default_cert_dir_env()) ||
		     !access(X509_get_default_cert_dir(), F_OK);

	SSL_CTX_set_default_verify_paths(context);
	for (size_t i = 0; !found && i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		found = SSL_CTX_load_verify_locations(context, elsewhere[i], NULL) == 1;
	ERR_clear_error();
}

static int set_trust(SSL_CTX *context, const struct tls_params *tls, struct error *err)
{
	bool is_directory = false;

	if (tls->insecure) {
		SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
		return 0;
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (!tls->ca) {
		trust_system(context);
		return 0;
	}
	if (check_path(tls->ca, "ca", &is_directory, err))
		return -1;
	if (SSL_CTX_load_verify_locations(context, is_directory ? NULL : tls->ca,
					  is_directory ? tls->ca : NULL) == 1)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "?ca=: %.250s: there are no certificates in it (%s)",
			 tls->ca, get_reason());
}

static int show_certificate(SSL_CTX *context, const struct tls_params *tls, struct error *err)
{
	static char no_passphrase[] = "";

	if (!tls->cert)
		return 0;
	if (check_path(tls->cert, "cert", NULL, err) || check_path(tls->key, "key", NULL, err))
		return -1;
	/* Otherwise OpenSSL would ask for the passphrase on the terminal. */
	SSL_CTX_set_default_passwd_cb_userdata(context, no_passphrase);
	if (SSL_CTX_use_certificate_chain_file(context, tls->cert) != 1)
		return error_set(err, ERROR_USAGE, 0,
				 "?cert=: %.250s: there is no certificate in it (%s)", tls->cert,
				 get_reason());
	if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) == 1)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "?key=: %.250s: not the key of ?cert=, or it has a "
			 "passphrase (%s)", tls->key, get_reason());
}

static SSL_CTX *read_files(const struct tls_params *tls, struct error *err)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_client_method());
	if (!context) {
		error_set(err, ERROR_INTERNAL, 0, "OpenSSL does not start: %s", get_reason());
		return NULL;
	}
	/* Older versions are broken (RFC 8996). The system's configuration may require more. */
	if (SSL_CTX_get_min_proto_version(context) < TLS1_2_VERSION)
		SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* A waiter's connection is idle nearly always, and needs no buffers then. */
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
			 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (!set_trust(context, tls, err) && !show_certificate(context, tls, err))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/*
 * Reading the authorities of the system takes some 30 ms, so connections to several servers at once
 * share one context. A process has one URI.
 */
static SSL_CTX *get_context(const struct tls_params *tls, struct error *err)
{
	static SSL_CTX *last;
	static int64_t read_ms;

	if (!last || clock_boot_ms() >= read_ms + SHARED_MS) {
		SSL_CTX_free(last);
		read_ms = clock_boot_ms();
		last = read_files(tls, err);
	}
	return last;
}

/* ---- messages */

static void explain_verification(const struct tls_session *session, long result,
				 struct error *err)
{
	if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
		error_set(err, ERROR_REFUSED, 0, "the server's certificate is not for '%.200s'; if "
			  "the server is right, name it as its certificate does, with ?sni=",
			  session->host);
	else
		error_set(err, ERROR_REFUSED, 0, "the server's certificate is not accepted here "
			  "(%s); an authority to trust is named by ?ca=FILE",
			  X509_verify_cert_error_string(result));
}

/*
 * Set *err after OpenSSL has failed in this session. A server that refuses the handshake sends an
 * alert before it closes the connection (RFC 8446, 6.2). Most often that is about our certificate.
 */
static void explain_failure(const struct tls_session *session, struct error *err)
{
	const long verified = SSL_get_verify_result(session->ssl);
	const unsigned long code = ERR_peek_error();
	const int reason = ERR_GET_REASON(code), alert = reason - SSL_AD_REASON_OFFSET;

	/* The first bytes of another protocol. */
	if (reason == SSL_R_WRONG_VERSION_NUMBER)
		error_set(err, ERROR_UNAVAILABLE, 0, "the server does not speak TLS (%s)",
			  session->tls->hint);
	else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
		explain_verification(session, verified, err);
	else if (ERR_GET_LIB(code) != ERR_LIB_SSL || alert <= 0 || alert == SSL_AD_INTERNAL_ERROR)
		error_set(err, ERROR_UNAVAILABLE, 0, "TLS failed: %s", get_reason());
	else
		error_set(err, ERROR_REFUSED, 0, "the server refuses the TLS handshake, perhaps "
			  "because it %s (%s)", session->tls->cert
			  ? "rejects the certificate of ?cert="
			  : "wants a certificate: ?cert=FILE&key=FILE", get_reason());
}

/* ---- opening */

/*
 * Verify the certificate against host, and send the name to a server that has several. An IP
 * address is not sent (RFC 6066, 3). A dot at the end of a name is dropped.
 */
static bool expect_host(SSL *ssl, const char *host, bool verify)
{
	struct sockaddr_storage address;
	socklen_t length;
	char name[256];
	size_t used = (size_t)snprintf(name, sizeof(name), "%s", host);

	if (used >= sizeof(name))
		return false;
	/* An IPv6 address may have a zone. */
	if (strchr(name, ':'))
		name[strcspn(name, "%")] = '\0';
	if (net_literal(name, 0, &address, &length))
		return !verify || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	if (used > 1 && name[used - 1] == '.')
		name[used - 1] = '\0';
	if (SSL_set_tlsext_host_name(ssl, name) != 1)
		return false;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return !verify || SSL_set1_host(ssl, name) == 1;
}

static void tls_close(struct tls_session *session)
{
	ERR_clear_error();
	if (session->ssl && !session->broken && SSL_is_init_finished(session->ssl))
		SSL_shutdown(session->ssl);
	SSL_free(session->ssl);
	free(session);
}

static struct tls_session *tls_open(int fd, const struct tls_params *tls, const char *host,
					  struct error *err)
{
	struct tls_session *session = memory_new(1, sizeof(*session));
	SSL_CTX *context = get_context(tls, err);

	/* OpenSSL uses write(), which raises it when the server is gone. */
	signal(SIGPIPE, SIG_IGN);
	session->tls = tls;
	session->host = tls->name ? tls->name : host;
	if (!context)
		goto fail;
	session->ssl = SSL_new(context);
	if (!session->ssl || SSL_set_fd(session->ssl, fd) != 1)
		memory_exit();
	SSL_set_connect_state(session->ssl);
	if (expect_host(session->ssl, session->host, !tls->insecure))
		return session;
	error_set(err, ERROR_USAGE, 0, "'%.200s' cannot be the name in a certificate",
		  session->host);
fail:
	tls_close(session);
	return NULL;
}

/* ---- moving */

/* Handle a failed call of OpenSSL. Returns 0 with *wanted, or -1 and sets *err. */
static int handle_failure(struct tls_session *session, int result, short *wanted,
			  struct error *err)
{
	const int failure = errno;
	const char *when = SSL_is_init_finished(session->ssl) ? "" : " in the TLS handshake";

	switch (SSL_get_error(session->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		*wanted = POLLIN;
		return 0;
	case SSL_ERROR_WANT_WRITE:
		*wanted = POLLOUT;
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		error_set(err, ERROR_UNAVAILABLE, 0, "closed the connection%s", when);
		break;
	case SSL_ERROR_SYSCALL:
		error_set(err, ERROR_UNAVAILABLE, failure, "the connection broke%s", when);
		break;
	default:
		explain_failure(session, err);
		break;
	}
	session->broken = true;
	return -1;
}

static int tls_handshake(struct tls_session *session, short *wanted, struct error *err)
{
	int result;

	ERR_clear_error();
	result = SSL_do_handshake(session->ssl);
	return result == 1 ? 1 : handle_failure(session, result, wanted, err);
}

static ssize_t tls_read(struct tls_session *session, void *data, size_t size, short *wanted,
			struct error *err)
{
	int result;

	ERR_clear_error();
	result = SSL_read_ex(session->ssl, data, size, &size);
	return result == 1 ? (ssize_t)size : handle_failure(session, result, wanted, err);
}

/*
 * Read the alert of a server after sending has failed. In TLS 1.3 the handshake is over before the
 * server has checked our certificate. A server that rejects it sends an alert and closes.
 */
static void read_alert(struct tls_session *session, struct error *err)
{
	struct error last = { 0 };
	short ignored;
	char byte;

	if (tls_read(session, &byte, 1, &ignored, &last) < 0 && last.kind == ERROR_REFUSED)
		*err = last;
}

static ssize_t tls_write(struct tls_session *session, const void *data, size_t size,
			 short *wanted, struct error *err)
{
	int result, state;

	ERR_clear_error();
	result = SSL_write_ex(session->ssl, data, size, &size);
	if (result == 1)
		return (ssize_t)size;
	state = handle_failure(session, result, wanted, err);
	if (state < 0 && err->kind == ERROR_UNAVAILABLE)
		read_alert(session, err);
	return state;
}

static const char *describe_library(void)
{
	return OpenSSL_version(OPENSSL_VERSION);
}

const struct tls_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.open = tls_open,
	.handshake = tls_handshake,
	.read = tls_read,
	.write = tls_write,
	.close = tls_close,
};
