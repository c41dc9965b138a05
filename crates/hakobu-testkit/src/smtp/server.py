"""A mail server on loopback that keeps every mail as a file: server.py FOLDER MODE [CERTIFICATE KEY]"""
import asyncio
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

FOLDER, MODE = sys.argv[1:3]


class Keeper:
    def __init__(self):
        self.count = 0
        self.busy = True

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 5.1.1 no such user"
        if address.startswith("busy@") and self.busy:
            self.busy = False
            return "451 4.7.1 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        head = f"Envelope-From: {envelope.mail_from}\nEnvelope-To: {','.join(envelope.rcpt_tos)}\n"
        is_private = server.transport.get_extra_info("ssl_object") is not None
        head += f"Envelope-Tls: {is_private}\nEnvelope-User: {session.auth_data}\n"
        draft = os.path.join(FOLDER, "draft")
        with open(draft, "wb") as file:
            file.write(head.encode() + envelope.content)
        os.rename(draft, os.path.join(FOLDER, f"{self.count:04}.eml"))
        self.count += 1
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    is_right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"hakobu", b"open sesame")
    return AuthResult(success=is_right, handled=False, auth_data="hakobu" if is_right else None)


async def main():
    options, tls = {"authenticator": authenticate, "auth_require_tls": False}, None
    if MODE != "plain":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        options["auth_required"] = True
        if MODE == "tls":
            tls = context
        else:
            options |= {"tls_context": context, "require_starttls": True, "auth_require_tls": True}
    loop, keeper = asyncio.get_running_loop(), Keeper()
    server = await loop.create_server(lambda: SMTP(keeper, **options), "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The end of the process that started it.
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
