/* SPDX-License-Identifier: MIT */
/* Messages for errors of TLS, and what can be done about them. */
#include "session.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include "backends/redis/address.h"
#include "base/error.h"

/*
 * The alerts of RFC 8446 that a server sends before it closes the connection. In TLS 1.2 a server
 * that wants a certificate sends handshake_failure.
 */
static const struct alert {
	const char *meaning;
	int numbers[8];		/* 0: no more */
} alerts[] = {
	{ "the server wants a certificate from its clients: ?cert=FILE&key=FILE",
	  { SSL_AD_CERTIFICATE_REQUIRED } },
	{ "the server rejects the certificate of ?cert=",
	  { SSL_AD_BAD_CERTIFICATE, SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
	    SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN, SSL_AD_UNKNOWN_CA,
	    SSL_AD_ACCESS_DENIED } },
	{ "the server does not know the name that it was asked for", { SSL_AD_UNRECOGNIZED_NAME } },
	{ "the server has no version of TLS in common with dlock, which speaks TLS 1.2 and 1.3",
	  { SSL_AD_PROTOCOL_VERSION } },
	{ "the server refuses the TLS handshake", { SSL_AD_HANDSHAKE_FAILURE } },
};

static void explain_verification(const struct redis_tls_session *session, long result,
				 struct error *err)
{
	const char *text = X509_verify_cert_error_string(result);

	switch (result) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		error_set(err, ERROR_REFUSED, 0, "the server's certificate is not for '%.200s'; if "
			  "the server is right, name it as its certificate does, with ?sni=",
			  session->host);
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		error_set(err, ERROR_REFUSED, 0, "the server's certificate is not valid today: %s",
			  text);
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		error_set(err, ERROR_REFUSED, 0, "no authority that is trusted here has signed the "
			  "server's certificate (%s); ?ca=FILE names one to trust", text);
		break;
	default:
		error_set(err, ERROR_REFUSED, 0,
			  "the server's certificate is not to be trusted: %s", text);
		break;
	}
}

void tls_explain(const struct redis_tls_session *session, struct error *err)
{
	const long verified = SSL_get_verify_result(session->ssl);
	const unsigned long code = ERR_peek_error();
	const char *text = ERR_reason_error_string(code);
	const int alert = ERR_GET_LIB(code) == ERR_LIB_SSL
		? ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET : 0;

	if (session->foreign) {
		error_set(err, ERROR_UNAVAILABLE, 0, "the server does not speak TLS (%s)",
			  session->tls->off);
		return;
	}
	if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
		explain_verification(session, verified, err);
		return;
	}
	error_set(err, ERROR_UNAVAILABLE, 0, "TLS failed: %s", text ? text : "no reason given");
	for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++)
		for (const int *number = alerts[i].numbers; *number; number++)
			if (*number == alert)
				error_set(err, ERROR_REFUSED, 0, "%s%s (%s)", alerts[i].meaning,
					  alert == SSL_AD_HANDSHAKE_FAILURE && !session->tls->cert
					  ? ", perhaps because it wants a certificate, with ?cert="
					  : "", text);
}
