"""Serves `config.git` of a directory over HTTPS with dulwich: server.py DIRECTORY PORT LOGIN."""

import base64
import socketserver
import ssl
import sys
import wsgiref.simple_server

import dulwich.repo
import dulwich.server
import dulwich.web

directory, port, login = sys.argv[1:]
repository = dulwich.repo.Repo(f"{directory}/config.git")
git = dulwich.web.make_wsgi_chain(dulwich.server.DictBackend({"/config.git": repository}))


def application(environ, start_response):
    if environ.get("HTTP_AUTHORIZATION") == "Basic " + base64.b64encode(login.encode()).decode():
        return git(environ, start_response)
    start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"')])
    return [b""]


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


server = wsgiref.simple_server.make_server("127.0.0.1", int(port), application, Server, dulwich.web.WSGIRequestHandlerLogger)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{directory}/tls.crt", f"{directory}/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
